"""The rules of networks, MACs and addresses: ranges, allocation, leases and slices. Pure."""
