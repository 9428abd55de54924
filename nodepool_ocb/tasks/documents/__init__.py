"""The documents of task lists: their entries, the faults in each and among them, and the tasks that they become."""
