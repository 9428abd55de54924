"""Machines that are installed from the network: networks, addresses, boot environments and their files. Pure."""
