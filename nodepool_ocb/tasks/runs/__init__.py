"""Tasks: runs: a plan that is carried out, what it keeps, and what its driver does next."""
