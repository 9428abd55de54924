"""The requests of machines that boot, read from the logs of the admin nodes.

Each log is read once in READ_SECONDS at most, for all machines together, from the byte that was reached before, and only while
an installation waits. A log that cannot be read is no fault of any machine, and is logged once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, runtime_checkable

import msgspec

from nodepool_ocb.daemon.workers import WorkerQueue
from nodepool_ocb.errors import OcbError, reason_of
from nodepool_ocb.jigs.ssh.bootlogs import LogPiece, LogPlace
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.model.boot import Publisher
from nodepool_ocb.model.records import Node
from nodepool_ocb.provisioning import publications
from nodepool_ocb.provisioning.evidence import requests
from nodepool_ocb.provisioning.evidence.requests import BootRequests
from nodepool_ocb_annealer.context import AnnealerContext

log = logging.getLogger(__name__)

READ_SECONDS: Final = 10.0
MORE_SECONDS: Final = 1.0  # until the next piece of a log that has more
READERS: Final = 4


@runtime_checkable
class LogJig(Protocol):
    """A jig that reads the logs of admin nodes."""

    def bootlog(self, fqdn: str, node: Node, place: LogPlace) -> LogPiece: ...


class WatchedMachine(msgspec.Struct):
    """A machine that boots."""

    nonce: str
    macs: tuple[str, ...]
    known: BootRequests = BootRequests()
    read: set[str] = msgspec.field(default_factory=set)  # the servers whose logs were read since


class ReadLog(msgspec.Struct):
    """The log of one server."""

    place: LogPlace
    busy: bool = False
    next_read: float = 0.0  # not before (monotonic)
    trouble: str = ""


class RequestWatch:
    """``look`` while a machine waits; ``news`` is told of a machine with other requests. On the turn thread."""

    def __init__(self, context: AnnealerContext, news: Callable[[str], None]) -> None:
        self._context, self._news = context, news
        self._workers = WorkerQueue("requests", READERS, context.post)
        self._machines: dict[str, WatchedMachine] = {}
        self._logs: dict[str, ReadLog] = {}  # by server

    def look(self, fqdn: str, nonce: str, macs: tuple[str, ...], jig: object, *, ordered: bool = False) -> str | None:
        """A sentence about the requests of a machine; None before any log was read. Reads the logs again if it is time.

        ``ordered``: its installer has the order, so the sentence is about another start alone.
        """
        machine = self._machines.get(fqdn)
        if machine is None or machine.nonce != nonce:
            machine = self._machines[fqdn] = WatchedMachine(nonce, macs)
        now = time.monotonic()
        if isinstance(jig, LogJig):
            for vertex in publications.servers(self._context.world):
                publisher = self._context.world.of(Publisher).get(vertex.name)
                if publisher is not None and publisher.record.log and vertex.node.record is not None:
                    self._read(vertex.node.name, vertex.node.record, publisher.record.log, jig, now)
        if ordered:
            return requests.started_again(machine.known)
        return requests.sentence(machine.known, sorted(machine.read)) if machine.read else None

    def forget(self, fqdn: str) -> None:
        """It waits no more."""
        self._machines.pop(fqdn, None)

    def close(self) -> None:
        """Begin no more readings."""
        self._workers.close()

    def _read(self, server: str, node: Node, path: str, jig: LogJig, now: float) -> None:
        found = self._logs.get(server)
        if found is None or found.place.path != path:
            found = self._logs[server] = ReadLog(LogPlace(path))
        if found.busy or now < found.next_read:
            return
        found.next_read = now + READ_SECONDS
        work = partial(_piece, jig, server, node, found.place)
        found.busy = self._workers.ask(work, partial(self._answered, server, found))

    def _answered(self, server: str, found: ReadLog, piece: LogPiece | str) -> None:
        found.busy = False
        if isinstance(piece, str):
            if piece != found.trouble:
                log.info("the log of boots on %s cannot be read: %s", server, piece)
            found.trouble = piece
            return
        found.trouble, found.place = "", piece.next
        if piece.more:
            found.next_read = time.monotonic() + MORE_SECONDS
        lines = [each for line in piece.lines if (each := requests.parsed(line)) is not None]
        for fqdn, machine in self._machines.items():
            known = requests.heard(machine.known, server, lines, machine.nonce, machine.macs)
            if known != machine.known or server not in machine.read:
                machine.known = known
                machine.read.add(server)
                self._news(fqdn)


def _piece(jig: LogJig, server: str, node: Node, place: LogPlace) -> LogPiece | str:
    """In a worker: a piece, or the reason why there is none."""
    try:
        return jig.bootlog(server, node, place)
    except (OwnFault, OSError, OcbError) as fault:
        return reason_of(fault)
    except Exception as error:  # of the session of SSH: the installation does not depend on it
        return f"{type(error).__name__}: {error}"
