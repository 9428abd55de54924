"""A daemon's pages over HTTP: the server, what a page is, logs."""
