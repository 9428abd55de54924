"""Whether a machine answers a ping. If it is off, a ping costs less than a connection.

ICMP echoes, IPv4 and IPv6, through sockets that need no rights but ``net.ipv4.ping_group_range``. The answer is "no"
only if every address is silent. If this host cannot ask or cannot resolve, the connection must tell.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import Final

TIMEOUT_SECONDS: Final = 2.0
ECHOES: Final = 2  # in that time: one may be lost
#: family → protocol, and the type of an echo request; that of the answer
ECHO: Final = {
    socket.AF_INET: (socket.IPPROTO_ICMP, 8, 0),
    socket.AF_INET6: (socket.IPPROTO_ICMPV6, 128, 129),
}


class NotAsked(Exception):
    """This host could not ask, and why."""


class NotAllowed(NotAsked):
    """This host may not send pings."""


def answers(hosts: Iterable[str], timeout_seconds: float = TIMEOUT_SECONDS) -> bool:
    """Whether any of the hosts answers; takes no longer than that. Raises NotAsked where that is not known."""
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for family, address in _resolved(hosts):
            selector.register(stack.enter_context(_opened(family, address)), selectors.EVENT_READ, family)
        if not selector.get_map():
            raise NotAsked("the node has no address")
        deadline = time.monotonic() + timeout_seconds
        for number in range(1, ECHOES + 1):
            for key in list(selector.get_map().values()):
                _ask(key.fileobj, key.data, number)  # type: ignore[arg-type]
            if _heard(selector, deadline - timeout_seconds * (ECHOES - number) / ECHOES):
                return True
    return False


def _resolved(hosts: Iterable[str]) -> Iterator[tuple[socket.AddressFamily, tuple[object, ...]]]:
    for host in hosts:
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
        except OSError as error:
            raise NotAsked(f"{host}: {error}") from error
        yield from ((family, address) for family, _, _, _, address in found if family in ECHO)


def _opened(family: socket.AddressFamily, address: tuple[object, ...]) -> socket.socket:
    try:
        opened = socket.socket(family, socket.SOCK_DGRAM, ECHO[family][0])
    except OSError as error:
        raise NotAllowed(f"{error.strerror}: see net.ipv4.ping_group_range") from error
    try:
        opened.setblocking(False)
        opened.connect(address)
    except OSError as error:
        opened.close()
        raise NotAsked(f"{address[0]}: {error.strerror}") from error
    return opened


def _ask(asked: socket.socket, family: socket.AddressFamily, number: int) -> None:
    """The kernel adds identifier and checksum, and gives us answers to our own alone."""
    try:
        asked.send(bytes((ECHO[family][1], 0, 0, 0, 0, 0, 0, number)))
    except OSError as error:
        raise NotAsked(f"{error.strerror}") from error


def _heard(selector: selectors.BaseSelector, deadline: float) -> bool:
    while (left := deadline - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            with suppress(OSError):  # a router reports that the address is not reachable: it counts as silence
                if key.fileobj.recv(64)[:1] == bytes((ECHO[key.data][2],)):  # type: ignore[union-attr]
                    return True
    return False
