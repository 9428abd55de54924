"""The verbs of leases: nodes of pools, taken, used and returned."""
