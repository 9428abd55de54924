"""The verbs of secrets: list them, and encrypt them with a new key."""
