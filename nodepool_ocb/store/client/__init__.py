"""One session with ZooKeeper: the wire, requests, transactions, and their results."""
