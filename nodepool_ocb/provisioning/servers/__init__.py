"""The servers of admin nodes: their files, and other servers of DHCP that they hear. Pure."""
