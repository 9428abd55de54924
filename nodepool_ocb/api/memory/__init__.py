"""Kept by a server between requests: documents, rows, tokens, and the digest of the world."""
