"""Engine: numbers that begin anew above those of a time that was lost."""
