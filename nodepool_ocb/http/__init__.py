"""A daemon's pages over HTTP: the server, the type of a page, logs."""
