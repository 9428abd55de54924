"""Secrets: key files, encryption, references, and what is done with the secrets of one run."""
