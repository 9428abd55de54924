"""Driver openstack for machines: servers of Nova, with their volumes and floating addresses, by way of openstacksdk."""
