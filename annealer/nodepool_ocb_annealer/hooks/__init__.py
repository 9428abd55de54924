"""Hooks of roles: run after what caused them, at least once, by the annealer that ranks first for their subject."""
