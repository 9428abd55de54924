"""The verbs of pools."""
