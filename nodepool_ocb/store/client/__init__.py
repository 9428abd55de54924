"""One session with ZooKeeper: the wire, requests, transactions, and what became of them."""
