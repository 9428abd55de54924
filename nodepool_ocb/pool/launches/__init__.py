"""The launch and the deletion of one node: the steps, the names, the image, and the back-off after a failure. Pure."""
