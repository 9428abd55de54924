"""Ports for servers and daemons of tests: two processes that ask here are never given the same one.

A daemon binds its port some time after it was chosen, and once more when it starts again. So each process has a block of
ports of its own, as long as it lives, and goes round in it. A block is marked as taken by a socket in the abstract
namespace, which the kernel removes with the process. Like ports, these sockets belong to a network namespace.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import socket
from collections.abc import Iterator
from typing import Final

FIRST: Final = 20000
LIMIT: Final = 32000  # below the ports of outgoing connections
BLOCK: Final = 150


class _Block:
    """The ports of this process: each address has all of them."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._first = _taken()
        self._rounds: dict[str, Iterator[int]] = {}

    def round(self, host: str) -> Iterator[int]:
        """The ports in turn, without end; it goes on where the last call for this address stopped."""
        return self._rounds.setdefault(host, itertools.cycle(range(self._first, self._first + BLOCK)))


_block: _Block | None = None


def free_port(host: str = "127.0.0.1") -> int:
    """A port of an address of this host, without a listener. Raises RuntimeError where all ports of this process have one."""
    global _block
    if _block is None or _block.process != os.getpid():  # a fork has no part in its parent's
        _block = _Block()
    for port in itertools.islice(_block.round(host), BLOCK):
        if not _has_listener(host, port):
            return port
    raise RuntimeError(f"each of the {BLOCK} ports of this process has a listener on {host}")


def _has_listener(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return True
    return False


def _taken() -> int:
    """The first port of a block that was nobody's, and is this process's from now on."""
    firsts = list(range(FIRST, LIMIT, BLOCK))
    random.SystemRandom().shuffle(firsts)  # not the seeded generator: test processes would begin with the same ones
    for first in firsts:
        mark = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            mark.bind(f"\0nodepool-ocb-ports-{first}")
            mark.detach()  # open until the process ends
            return first
        mark.close()
    raise RuntimeError(f"all ports from {FIRST} to {LIMIT} belong to other test processes")
