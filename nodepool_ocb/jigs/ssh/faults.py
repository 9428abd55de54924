"""Every way in which reaching a machine can fail, and the party at fault: one table, which docs/jigs.md shows.

A fault of this host is raised as ``OwnFault``, for it says nothing about any machine. A fault of the machine, or of the network
path to it, is an ``Unreachable`` with its party. A fault that the table does not know is a fault of the path.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import paramiko

from nodepool_ocb.jigs.jig import Party

WORDS_CHARACTERS: Final = 500  # of a sentence of the machine or of a library about a failure
GLUED: Final = "Error reading SSH protocol banner"  # paramiko says this and the cause with nothing in between
NO_THREAD: Final = "can't start new thread"  # Python says this, and no class of exceptions does


class OwnFault(Exception):
    """This host failed to ask: that gives no information about any machine."""

    def __init__(self, step: str, reason: str) -> None:
        super().__init__(f"{step}: {reason}")
        self.step = step


class FaultMeaning(msgspec.Struct, frozen=True):
    """The meaning of one fault of a connection."""

    step: str
    fault: str  # its name, as the library has it
    meaning: str
    party: Party


_OWN, _PATH, _MACHINE = Party.OWN, Party.PATH, Party.MACHINE
NO_NAME: Final = ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY")
TABLE: Final = (
    FaultMeaning("key", "no key", "no file of `ssh.key_files` can be read", _OWN),
    FaultMeaning("thread", NO_THREAD, "this host cannot start another thread, here or in the SSH library", _OWN),
    FaultMeaning("memory", "MemoryError", "this host has no memory left", _OWN),
    FaultMeaning("ping", "silence", "no ICMP echo came back (`ssh.ping` alone)", _PATH),
    FaultMeaning("resolve", "EAI_AGAIN", "the resolver does not answer, or its server cannot", _OWN),
    FaultMeaning("resolve", "EAI_FAIL", "the resolver's server refuses to answer", _OWN),
    FaultMeaning("resolve", "EAI_MEMORY", "the resolver has no memory left", _OWN),
    FaultMeaning("resolve", "EAI_SYSTEM", "the resolver cannot ask: no files, no sockets", _OWN),
    *(
        FaultMeaning("resolve", name, "the name of a node that is alive is not known any more", _OWN)
        for name in NO_NAME
    ),
    *(FaultMeaning("resolve", name, "the name of a node that is not alive is not known", _MACHINE) for name in NO_NAME),
    FaultMeaning("resolve", "ValueError", "the address in the node's record can be none", _MACHINE),
    FaultMeaning("resolve", "any other", "the resolver fails in another way", _OWN),
    FaultMeaning("connect", "EMFILE", "this process has no file descriptors left", _OWN),
    FaultMeaning("connect", "ENFILE", "this host has no file descriptors left", _OWN),
    FaultMeaning("connect", "ENOMEM", "the kernel has no memory left", _OWN),
    FaultMeaning("connect", "ENOBUFS", "the kernel has no buffers left", _OWN),
    FaultMeaning("connect", "EADDRNOTAVAIL", "this host has no port or no source address left", _OWN),
    FaultMeaning("connect", "EADDRINUSE", "this host has no port left", _OWN),
    FaultMeaning("connect", "EAFNOSUPPORT", "this host does not have that family of addresses", _OWN),
    FaultMeaning("connect", "EPERM", "a firewall of this host forbids it", _OWN),
    FaultMeaning("connect", "EACCES", "a firewall of this host forbids it", _OWN),
    FaultMeaning("connect", "ENETDOWN", "this host's network is down", _OWN),
    FaultMeaning("connect", "ENETUNREACH", "this host has no route to the machine", _OWN),
    FaultMeaning("connect", "ENETUNREACH", "this host has a route, and a router on it has none", _PATH),
    FaultMeaning("connect", "EHOSTUNREACH", "a router, or the last link, does not find the machine", _PATH),
    FaultMeaning("connect", "EHOSTDOWN", "the last link does not find the machine", _PATH),
    FaultMeaning("connect", "ETIMEDOUT", "nothing answers", _PATH),
    FaultMeaning("connect", "ECONNREFUSED", "the machine answers, and nothing listens", _MACHINE),
    FaultMeaning("connect", "ECONNRESET", "the machine ends the connection", _MACHINE),
    FaultMeaning("connect", "ECONNABORTED", "the machine ends the connection", _MACHINE),
    FaultMeaning("connect", "EPIPE", "the machine ends the connection", _MACHINE),
    FaultMeaning(
        "connect", "no SSH", "the machine takes the connection, and speaks no SSH with us, or nothing at all", _MACHINE
    ),
    FaultMeaning("connect", "any other", "the kernel fails in another way", _PATH),
    FaultMeaning("host key", "another key", "the machine shows another host key than the pinned one", _MACHINE),
    FaultMeaning("authenticate", "refused", "the machine takes none of the keys; see below", _MACHINE),
    FaultMeaning("run", "silence", "a connection that was open is silent for three keepalives", _PATH),
    FaultMeaning("run", "any other", "the login, the shell or the runner fails", _MACHINE),
)


def _by_number(step: str, source: object) -> Mapping[int, Party]:
    """The party of each number of this step; where a fault has two rows, that of the second."""
    return {getattr(source, row.fault): row.party for row in TABLE if row.step == step and hasattr(source, row.fault)}


RESOLVER: Final = _by_number("resolve", socket)
SOCKET: Final = _by_number("connect", errno)
_NO_NAME: Final = frozenset(getattr(socket, name) for name in NO_NAME if hasattr(socket, name))


def of_resolver(error: OSError | ValueError, alive: bool) -> Party:
    """The party at fault where a name was not resolved; ``alive``: its node was reached before.

    >>> again = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    >>> unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    >>> str(of_resolver(again, False)), str(of_resolver(unknown, True)), str(of_resolver(unknown, False))
    ('own host', 'own host', 'machine')
    """
    if isinstance(error, ValueError):
        return Party.MACHINE
    if error.errno in _NO_NAME and alive:
        return Party.OWN
    return RESOLVER.get(error.errno or 0, Party.OWN)


def of_connection(error: BaseException, routed: bool = True) -> Party:
    """The party at fault where a connection was not made, or ended; ``routed``: this host has a route to the machine.

    >>> str(of_connection(ConnectionRefusedError(errno.ECONNREFUSED, ""))), str(of_connection(TimeoutError("timed out")))
    ('machine', 'path')
    >>> str(of_connection(RuntimeError(NO_THREAD))), str(of_connection(OSError(errno.ENETUNREACH, ""), routed=False))
    ('own host', 'own host')
    """
    causes = list(_causes(error))
    if any(isinstance(each, OwnFault | MemoryError) or _no_thread(each) for each in causes):
        return Party.OWN
    numbers = [each.errno for each in causes if isinstance(each, OSError)]
    if numbers == [errno.ENETUNREACH] and not routed:
        return Party.OWN
    if isinstance(error, OSError) or any(numbers):
        return SOCKET.get(numbers[0] or 0, Party.PATH)
    return Party.MACHINE  # it answered, and its answer made no sense


def _no_thread(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and str(error) == NO_THREAD


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and the one that paramiko's sentence of the banner hides."""
    yield error
    if isinstance(error, paramiko.SSHException) and str(error).startswith(GLUED) and error.__context__ is not None:
        yield error.__context__


def has_route(family: int, address: tuple[object, ...]) -> bool:
    """Whether this host has a route to the address; no packet is sent."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect(address)
    except OSError:
        return False
    return True


def words(error: BaseException) -> str:
    """The text of an error, of bounded length."""
    said = str(getattr(error, "strerror", None) or str(error) or type(error).__name__)
    if said.startswith(GLUED) and said != GLUED:
        said = f"{GLUED}: {said.removeprefix(GLUED)}"
    return said[:WORDS_CHARACTERS]
