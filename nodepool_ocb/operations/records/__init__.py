"""The verbs of single records, of locks, and of the cluster as a whole."""
