"""The documents of task lists: their entries, what is wrong in each and among them, and the tasks that they become."""
