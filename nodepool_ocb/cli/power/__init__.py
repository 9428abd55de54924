"""Command line: the power of machines."""
