"""The counters of a ZooKeeper server, for tests and measurements that must not rely on the client's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from nodepool_ocb.testing.zookeeper.server import Server

_ZXID: Final = re.compile(r"^Zxid: 0x([0-9a-f]+)$", re.MULTILINE)
_RECEIVED: Final = re.compile(r"recved=(\d+),.*sid=0x([0-9a-f]+)")
_FSYNCS: Final = re.compile(r"^zk_cnt_fsynctime\t(\d+)$", re.MULTILINE)
_WRITTEN: Final = re.compile(r"^write_bytes: (\d+)$", re.MULTILINE)


def transactions(server: Server) -> int:
    """The number of transactions that it has seen: refused ones, and the beginning and end of sessions, included."""
    found = _ZXID.search(server.ask("srvr"))
    if found is None:
        raise RuntimeError(f"ZooKeeper on {server.hosts} does not say how far it is")
    return int(found[1], 16)


def requests(server: Server, but: int = 0) -> int:
    """The number of requests that the sessions that are open now have sent, pings included; ``but`` is a session's id
    that does not count.
    """
    return sum(int(count) for count, session in _RECEIVED.findall(server.ask("cons")) if int(session, 16) != but)


def fsyncs(server: Server) -> int:
    """How often it has waited for the disk, by its own count (``mntr``)."""
    found = _FSYNCS.search(server.ask("mntr"))
    if found is None:
        raise RuntimeError(f"ZooKeeper on {server.hosts} does not count its fsyncs")
    return int(found[1])


def written_bytes(server: Server) -> int:
    """The bytes that its process has given to the disk, by the kernel's count of pages (``/proc/PID/io``)."""
    found = _WRITTEN.search(Path(f"/proc/{server.pid}/io").read_text())
    assert found is not None, "the kernel counts them"
    return int(found[1])
