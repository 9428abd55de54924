"""Builds and uploads of images: a nodepool.yaml, the time of the next build, the builds to keep."""
