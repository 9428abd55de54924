"""Runs of noderoles: slots, attributes in and out, logs, remains of old runs."""
