"""Machines of the fleet as the capacity of a pool: the choice of one, its use, and its return. Pure."""
