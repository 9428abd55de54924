"""Rollouts: which annealer drives one, and what it writes."""
