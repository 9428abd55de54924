"""Runs in Nodepool's environment: writes requests and nodes with Nodepool's own classes, as its launcher does.

In: {"hosts", "cert", "key", "ca", "nodes": {id: fields}, "requests": {id: fields}}.
"""

import json
import sys

from kazoo.client import KazooClient
from nodepool.zk import zookeeper as zk

order = json.load(sys.stdin)
client = KazooClient(
    order["hosts"], use_ssl=True, certfile=order["cert"], keyfile=order["key"], ca=order["ca"], timeout=30
)
client.start(timeout=60)
for kind, made in (("nodes", zk.Node), ("requests", zk.NodeRequest)):
    client.ensure_path(f"/nodepool/{kind}")
    for identity, fields in order[kind].items():
        thing = made.fromDict(fields, identity)
        client.create(f"/nodepool/{kind}/{identity}", thing.serialize())
client.stop()
print("{}")
