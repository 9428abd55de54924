"""The verbs of daemons."""
