"""``nodepool-ocb tasks``: task lists are checked, stored, planned and run."""
