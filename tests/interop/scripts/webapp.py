"""Runs in Nodepool's environment: serves Nodepool's own web application over a tree, until it is ended.

In, as one line: {"hosts", "cert", "key", "ca", "port"}. Out: a line when it listens.
"""

import json
import sys
import time

from nodepool import webapp
from nodepool.zk import ZooKeeperClient
from nodepool.zk import zookeeper as zk
from nodepool.zk.components import COMPONENT_REGISTRY

order = json.loads(sys.stdin.readline())
client = ZooKeeperClient(order["hosts"], tls_cert=order["cert"], tls_key=order["key"], tls_ca=order["ca"])
client.connect()
COMPONENT_REGISTRY.create(client)
tree = zk.ZooKeeper(
    client, enable_cache=False
)  # its cache has no pauses, and no lock of a node that is asked for by its id


class Launcher:
    ready = True

    def getZK(self):
        return tree


webapp.WebApp(Launcher(), port=order["port"], listen_address="127.0.0.1").start()
print("listening", flush=True)
while True:
    time.sleep(3600)
