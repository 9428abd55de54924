"""Store: task lists, and their runs."""
