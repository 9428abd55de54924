"""Runs in Zuul's environment: one requester that uses Zuul's own client library.

In: {"hosts", "cert", "key", "ca", "label", "die": the step after which the process ends without a word, or empty}.
Out: one line of JSON for each step: submitted, revised, fulfilled, locked, returned.
"""

import json
import os
import sys
import time

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from zuul.model import Node, NodeRequest
from zuul.zk import ZooKeeperClient
from zuul.zk.nodepool import ZooKeeperNodepool

WAIT_SECONDS = 60
order = json.load(sys.stdin)


def said(step: str, **values: object) -> None:
    print(json.dumps({"step": step, **values}), flush=True)
    if order["die"] == step:
        os._exit(9)


trace.set_tracer_provider(TracerProvider())  # as Zuul's daemons do
client = ZooKeeperClient(order["hosts"], tls_cert=order["cert"], tls_key=order["key"], tls_ca=order["ca"], timeout=10)
client.connect()
pool = ZooKeeperNodepool(client)

request = NodeRequest(
    "zuul-test", "build-set-1", "tenant-one", "check", "job-1", "job", [order["label"]], None, 5, "event-1"
)
pool.submitNodeRequest(request, 100)
said("submitted", id=request.id)

locked = pool.getNodeRequest(request.id)
pool.lockNodeRequest(locked, blocking=True, timeout=WAIT_SECONDS)
fresh = pool.getNodeRequest(request.id)
fresh.relative_priority = 0
pool.storeNodeRequest(fresh)
pool.unlockNodeRequest(locked)
said("revised", relative_priority=fresh.relative_priority)

ends = time.monotonic() + WAIT_SECONDS
while fresh.state not in ("fulfilled", "failed") and time.monotonic() < ends:
    time.sleep(0.05)
    fresh = pool.getNodeRequest(request.id)
said("fulfilled", state=fresh.state, nodes=fresh.nodes, data=fresh.toDict()["requestor_data"])

nodes = []
for identity in fresh.nodes:
    node = Node(None, None)
    pool.updateNode(node, identity)
    pool.lockNode(node, blocking=False)
    node.state = "in-use"
    pool.storeNode(node)
    nodes.append(node)
shown = ("interface_ip", "connection_port", "username", "host_keys", "type", "hostname", "shell_type", "python_path")
said("locked", nodes=[{key: getattr(node, key) for key in shown} for node in nodes])

pool.deleteNodeRequest(request.id)
for node in nodes:
    node.state = "used"
    pool.storeNode(node)
    pool.unlockNode(node)
said("returned")
client.disconnect()
