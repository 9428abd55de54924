"""The host keys of a machine, one of each kind that it has; no login is needed.

Each key is proven: the machine signed the exchange with it. The first connection tells the kinds. So a machine with three keys
gets three connections, and none of them fails. A current sshd counts connections without a login against their source.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Collection
from typing import Final

import paramiko

from nodepool_ocb.jigs.jig import Party, Unreachable
from nodepool_ocb.jigs.ssh.faults import OwnFault, of_connection, of_resolver, words
from nodepool_ocb.jigs.ssh.link import BANNER_BYTES, ENDED, HOST_KEY_CHARACTERS, HOST_KEY_KINDS, MachineTransport
from nodepool_ocb.jigs.ssh.sockets import Socket, Unconnected, connected

SHORTEST_SECONDS: Final = 0.1  # of a step, close to the deadline


def scan(host: str, port: int, timeout_seconds: float, kinds: Collection[str] = ()) -> tuple[str, ...] | Unreachable:
    """The keys as ``TYPE BASE64``, at least one, of these kinds or of all; in about this time. Raises OwnFault."""
    deadline = time.monotonic() + timeout_seconds
    wanted = [kind for kind in HOST_KEY_KINDS if not kinds or kind in kinds] or list(HOST_KEY_KINDS)
    found: list[str] = []
    while wanted:
        answer = _one(host, port, deadline, wanted)
        if isinstance(answer, Unreachable):
            return answer
        key, offered = answer
        found.append(key)
        kind = key.split(" ")[0]
        wanted = [each for each in wanted if each in offered and each != kind]
    return tuple(found)


def listens(host: str, port: int, timeout_seconds: float, banner: bool = True) -> Unreachable | None:
    """None if a connection is accepted and, if ``banner``, the other side begins SSH. Raises OwnFault."""
    deadline = time.monotonic() + timeout_seconds
    sock = _connected(host, port, deadline)
    if isinstance(sock, Unreachable):
        return sock
    with sock:
        try:
            while banner:
                sock.settimeout(_left(deadline))
                data = sock.recv(256)
                if data.startswith(b"SSH-") or b"\nSSH-" in data:
                    return None
                if not data:
                    return Unreachable("connect", f"{host}:{port}: it hangs up")
                if time.monotonic() >= deadline:
                    raise TimeoutError("timed out")
        except (OSError, paramiko.SSHException) as error:
            return _failed("connect", host, port, error, of_connection(error))
    return None


def _one(host: str, port: int, deadline: float, kinds: list[str]) -> tuple[str, tuple[str, ...]] | Unreachable:
    """One key of one of these kinds, and the kinds that the machine has."""
    sock = _connected(host, port, deadline)
    if isinstance(sock, Unreachable):
        return sock
    transport: MachineTransport | None = None
    try:
        transport = MachineTransport(sock)
        transport.banner_timeout = transport.handshake_timeout = _left(deadline)
        transport.prefer_keys(kinds)
        transport.start_client(timeout=_left(deadline))
        key = transport.get_remote_server_key()
        text = f"{key.get_name()} {key.get_base64()}"
        if len(text) > HOST_KEY_CHARACTERS:
            return Unreachable("host key", f"{host}:{port}: it offers a host key of {len(text)} characters")
        return text, transport.offered
    except (*ENDED, RuntimeError) as error:
        return _failed("connect", host, port, error, of_connection(error))
    finally:
        sock.close()
        if transport is not None:
            transport.close()


def _connected(host: str, port: int, deadline: float) -> Socket | Unreachable:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (ValueError, OSError) as error:
        return _failed("resolve", host, port, error, of_resolver(error, alive=False))
    sock = connected(addresses, _left(deadline), BANNER_BYTES)
    if isinstance(sock, Unconnected):
        return _failed("connect", host, port, sock.error, sock.party)
    return sock


def _left(deadline: float) -> float:
    return max(SHORTEST_SECONDS, deadline - time.monotonic())


def _failed(step: str, host: str, port: int, error: BaseException, party: Party) -> Unreachable:
    if isinstance(error, OwnFault):
        raise error
    if party is Party.OWN:
        raise OwnFault(step, words(error)) from error
    return Unreachable(step, f"{host}:{port}: {words(error)}", party=party)
