"""Tokens of the API: create, read and revoke them."""
