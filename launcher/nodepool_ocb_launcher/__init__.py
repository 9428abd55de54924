"""The launcher: serves requests with ready nodes, and with nodes that it launches; deletes nodes after their use."""
