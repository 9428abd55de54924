"""Builds and uploads of images: a nodepool.yaml, when a build is due, what is kept."""
