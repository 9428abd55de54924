"""Lookups: the reads that decisions ask for. Each reads one kind of record from ``store`` when the performer answers it."""
