"""The verbs of networks."""
