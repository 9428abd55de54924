"""Task lists (seed 002): from files to a plan, which is a graph of noderoles, and the rules of its run. Pure; docs/tasks.md."""
