"""Driver ``admin-node``: images in the directory that an admin node serves over HTTP to machines that boot or install."""
