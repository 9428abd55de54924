"""Sockets to machines: connected to the first address that takes us, and bounded in their input."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import paramiko

from nodepool_ocb.jigs.jig import Party
from nodepool_ocb.jigs.ssh.faults import has_route, of_connection

KEEPALIVE_SECONDS: Final = 5.0
PACKET_BYTES: Final = 1 << 20


class Socket(socket.socket):
    """Acknowledges at once: sshd holds a second small packet back until the first is, which would take 40 ms.

    Its input is bounded: paramiko's is not, neither the lines before SSH begins nor a packet, nor packets of no use.
    """

    def allow(self, size: int, what: str) -> None:
        """Allow so many bytes from here on, until the next call."""
        self._allowance = self._left = size
        self._what = what

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if size > PACKET_BYTES:
            raise paramiko.SSHException(f"it sends a packet of {size} bytes, which is no SSH")
        data = super().recv(size, flags)
        self._left -= len(data)
        if self._left < 0:
            raise paramiko.SSHException(f"it sends more than {self._allowance} bytes {self._what}, which is no SSH")
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # it wears off
        return data


class Unconnected(msgspec.Struct, frozen=True):
    """Why no address took us."""

    error: BaseException
    party: Party


def connected(addresses: Sequence[tuple[Any, ...]], timeout_seconds: float, most: int) -> Socket | Unconnected:
    """Connected to the first address that takes us, to take ``most`` bytes at first.

    Else the word of the machine counts before a fault of the path, and that before a fault of this host.
    """
    failures: list[Unconnected] = []
    for family, kind, protocol, _, address in addresses:
        try:
            return _connected(Socket(family, kind, protocol), address, timeout_seconds, most)
        except OSError as error:
            routed = error.errno != errno.ENETUNREACH or has_route(family, address)
            failures.append(Unconnected(error, of_connection(error, routed)))
    known = [party for party in Party if any(each.party is party for each in failures)]
    return [each for each in failures if each.party is known[0]][-1]


def _connected(sock: Socket, address: Any, timeout_seconds: float, most: int) -> Socket:
    try:
        sock.settimeout(timeout_seconds)
        sock.allow(most, "before SSH begins")
        sock.connect(address)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dead_ms = int(3000 * min(KEEPALIVE_SECONDS, timeout_seconds))  # three keepalives
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, dead_ms)
    except BaseException:
        sock.close()
        raise
    return sock
