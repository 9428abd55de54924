"""``nodepool-ocb node``: machines are created, marked, bound, committed and taken away."""
