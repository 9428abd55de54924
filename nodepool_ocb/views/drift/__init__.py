"""The results of checks: one noderole a row, and the number of each result."""
