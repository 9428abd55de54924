"""Calls: saved plans of operations, and the work that goes on after a call."""
