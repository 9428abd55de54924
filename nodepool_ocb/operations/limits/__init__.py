"""Limits of a caller: operations are narrowed to the objects inside them, and a write of others is refused."""
