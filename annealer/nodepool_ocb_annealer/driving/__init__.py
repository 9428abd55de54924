"""Annealer: one of many drives the execution of a deployment: a rollout, or a run of tasks."""
