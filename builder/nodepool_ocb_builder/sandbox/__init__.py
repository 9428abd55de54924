"""Runs a build so that nothing of it is left."""
