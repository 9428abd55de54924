"""The operations on roles."""
