"""The operations on site files: the wanted cluster is applied, nodes are imported, the cluster is exported."""
