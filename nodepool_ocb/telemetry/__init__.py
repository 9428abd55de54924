"""Reports of a process about its work: log lines, counters, and foreign texts made harmless."""
