"""The verbs of the whole cluster: make it, compare the rights of its znodes, show everything at a glance."""
