"""The verbs that set nodes, deployments and daemons aside, and those that let work go on there."""
