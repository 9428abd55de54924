"""The operations on task lists and their runs: lists are checked, stored, planned and run."""
