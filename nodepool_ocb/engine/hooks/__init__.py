"""Hooks of roles: those that wait, their arguments, their refusals, and whether an annealer has their code."""
