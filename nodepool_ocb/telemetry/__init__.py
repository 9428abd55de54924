"""What a process tells of its work: log lines, counters, and texts of others made harmless."""
