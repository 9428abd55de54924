"""The lookups for task lists, their plans and their runs; and the procedures that write lists and begin runs."""
