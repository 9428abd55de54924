"""Private ZooKeeper servers and ensembles, to be killed, frozen and cut off."""
