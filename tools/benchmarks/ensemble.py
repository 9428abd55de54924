"""The server that everything is measured on, and its clients.

One node of Debian's ZooKeeper with fsync on; each piece of work gets a chroot of its own.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server

_chroots = itertools.count()


@contextmanager
def server() -> Iterator[Server]:
    """A server, until the end of the block."""
    with Server(fsync=True, heap="1g") as running:
        yield running


def settings(server: Server) -> ZooKeeperSettings:
    """Of an unused chroot."""
    return ZooKeeperSettings(hosts=f"{server.hosts}/bench-{os.getpid()}-{next(_chroots)}", session_timeout_seconds=20.0)


@contextmanager
def session(settings: ZooKeeperSettings) -> Iterator[Session]:
    """Our client; the chroot is there when it is."""
    with Session(settings) as ours:
        ours.ensure("/bench")
        yield ours


@contextmanager
def kazoo(settings: ZooKeeperSettings) -> Iterator[KazooClient]:
    """The client that everybody uses."""
    client = KazooClient(hosts=settings.hosts, timeout=settings.session_timeout_seconds)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()
