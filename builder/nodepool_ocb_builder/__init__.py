"""The builder: builds the images that are due, uploads them, and removes surplus builds and uploads."""
