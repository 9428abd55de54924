"""Requests for nodes, nodes of pools, and the components of launchers in ZooKeeper: reading, transactions, registration."""
