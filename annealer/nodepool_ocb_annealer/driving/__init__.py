"""Annealer: one of many drives what is under way in a deployment: a rollout, or a run of tasks."""
