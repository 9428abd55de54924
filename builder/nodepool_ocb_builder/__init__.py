"""The builder: builds the images that are due, uploads them, and removes what is superfluous."""
