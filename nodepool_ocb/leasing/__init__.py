"""A lease for one command on this host: the command's process, the access to the nodes, and the files that describe them."""
