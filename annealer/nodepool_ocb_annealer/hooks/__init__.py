"""Hooks of roles: run after their causes, at least once, by the annealer that ranks first for their subject."""
