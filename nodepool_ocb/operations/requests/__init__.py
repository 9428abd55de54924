"""The verbs of requests for nodes."""
