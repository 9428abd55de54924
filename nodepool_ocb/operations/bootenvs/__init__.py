"""The verbs of boot environments."""
