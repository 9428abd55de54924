"""Runs of tasks: a plan that is carried out, its records, and the next actions of its driver."""
