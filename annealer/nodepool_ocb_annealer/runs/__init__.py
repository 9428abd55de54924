"""Runs of noderoles: slots, attributes in and out, logs, what old runs leave."""
