"""One ZooKeeper for all tests of a run of ``tools/mutants``, in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mutation import forks


class Server(msgspec.Struct, frozen=True):
    """Where it listens, and its folder."""

    port: int
    directory: str


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """It runs in a fork, since this process must import nothing of the product: a mutant may be in a module that it imports."""
    sent = forks.lines(_served)
    try:
        yield msgspec.json.decode(next(sent), type=Server)
    finally:
        sent.close()  # type: ignore[attr-defined]  # it is a generator, and ends the fork and its server


def _served(send: forks.Send) -> None:
    from nodepool_ocb.testing.zookeeper import server as zookeeper

    with zookeeper.Server(fsync=False) as running:
        send(msgspec.json.encode(Server(running.port, str(running.directory))))
        signal.pause()


class Sharing:
    """A plugin: the fixture ``zookeeper`` is this server, and each test has a chroot that no other process uses."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._numbers = itertools.count(1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: pytest.FixtureRequest) -> object | None:
        """Sets up these two fixtures in place of pytest; None leaves any other to it."""
        value: object
        if fixturedef.argname == "zookeeper" and fixturedef.scope == "session":
            value = self._attached()
        elif fixturedef.argname == "chroot":
            value = f"/test-{os.getpid()}-{next(self._numbers)}"
        else:
            return None
        fixturedef.cached_result = (value, fixturedef.cache_key(request), None)
        return value

    def _attached(self) -> object:
        from nodepool_ocb.testing.zookeeper import server as zookeeper

        attached = zookeeper.Server(fsync=False, port=self._server.port)
        attached.directory.rmdir() if not any(attached.directory.iterdir()) else None
        attached.directory = Path(self._server.directory)
        return attached
