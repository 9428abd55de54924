"""Machines that are installed from the network: networks, addresses, boot environments, installations. Pure."""
