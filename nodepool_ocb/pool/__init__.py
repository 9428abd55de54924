"""Requests for nodes and the nodes that serve them: the pool that serves a request, launches, and deletions."""
