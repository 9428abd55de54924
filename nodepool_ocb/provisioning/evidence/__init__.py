"""Observations of a machine that boots: the lines of its console, and its requests to the servers of boot files. Pure."""
