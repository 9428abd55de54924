"""Kept by a server between requests: documents, rows, tokens, the places of streams, and the digest of the world."""
