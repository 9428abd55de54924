"""The counters of a ZooKeeper server, for tests and measurements that must not rely on the client's."""

from __future__ import annotations

import re
from typing import Final

from nodepool_ocb.testing.zookeeper.server import Server

_ZXID: Final = re.compile(r"^Zxid: 0x([0-9a-f]+)$", re.MULTILINE)
_RECEIVED: Final = re.compile(r"recved=(\d+),.*sid=")


def transactions(server: Server) -> int:
    """The number of transactions that it has seen: refused ones, and the beginning and end of sessions, included."""
    found = _ZXID.search(server.ask("srvr"))
    if found is None:
        raise RuntimeError(f"ZooKeeper on {server.hosts} does not say how far it is")
    return int(found[1], 16)


def requests(server: Server) -> int:
    """The number of requests that the sessions that are open now have sent, pings included."""
    return sum(int(count) for count in _RECEIVED.findall(server.ask("cons")))
