"""What noderoles see: each value with its layer and what it hides, and how two noderoles or two runs differ."""
