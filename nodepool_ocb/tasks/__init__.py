"""Task lists (seed 002): files, the plan that they are compiled to, and the rules of its run. docs/tasks.md has them."""
