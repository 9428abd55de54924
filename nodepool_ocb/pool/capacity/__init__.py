"""The capacity of pools: usage, limits, the pass over the queue, and reservations. Pure."""
