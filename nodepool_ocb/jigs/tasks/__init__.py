"""The jigs of tasks (docs/tasks.md, "Types"): each makes a script of an order's parameters, for the machine's runner."""
