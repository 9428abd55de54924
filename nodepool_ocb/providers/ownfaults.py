"""Faults of this host among the exceptions of drivers: its resolver, its memory, its descriptors, its network.

They count against no node and no provider. Libraries wrap an exception in others, so the causes are searched, too.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Final

from nodepool_ocb.jigs.jig import Party
from nodepool_ocb.jigs.ssh.faults import of_connection, of_resolver

CAUSES: Final = 30  # of an exception that are searched


def of_this_host(error: BaseException) -> bool:
    """Whether this host is at fault, and neither the provider nor the machine.

    >>> of_this_host(MemoryError()), of_this_host(ConnectionRefusedError(111, "refused"))
    (True, False)
    >>> of_this_host(RuntimeError(OSError(24, "Too many open files")))
    True
    """
    return any(map(_own, _causes(error)))


def _own(error: BaseException) -> bool:
    if isinstance(error, socket.gaierror):
        return of_resolver(error, alive=False) is Party.OWN
    if isinstance(error, OSError) and error.errno is None:
        return False
    return isinstance(error, OSError | MemoryError | RuntimeError) and of_connection(error) is Party.OWN


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    below: list[object] = [error]
    while below and len(seen) < CAUSES:
        each = below.pop()
        if not isinstance(each, BaseException) or any(each is other for other in seen):
            continue
        seen.append(each)
        yield each
        below += [each.__cause__, each.__context__, getattr(each, "reason", None), *each.args]
