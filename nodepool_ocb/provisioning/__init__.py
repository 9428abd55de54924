"""Machines that are installed from the network: networks and addresses. Pure."""
