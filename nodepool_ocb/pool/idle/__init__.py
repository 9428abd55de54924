"""Nodes without a holder, and machines without a node: min-ready, ages, slots and leaks. Pure."""
