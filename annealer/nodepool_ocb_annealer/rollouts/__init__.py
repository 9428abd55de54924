"""Rollouts: the writes of the annealer that drives one."""
