"""Annealer: runs of tasks that this one drives."""
