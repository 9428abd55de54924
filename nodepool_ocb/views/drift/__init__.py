"""What checks found: one noderole a row, and how many of each."""
