"""The verbs of images and uploads."""
