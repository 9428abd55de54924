"""Secrets: key files, encryption, references, and the handling of the secrets of one run."""
