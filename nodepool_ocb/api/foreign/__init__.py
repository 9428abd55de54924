"""Paths of Fuel and of Nodepool, for their clients as they are: the same addresses, queries and JSON."""
