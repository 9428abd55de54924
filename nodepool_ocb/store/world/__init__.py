"""A World filled from ZooKeeper and kept as ZooKeeper is: the paths that it shows, the load, the cache, the changes."""
