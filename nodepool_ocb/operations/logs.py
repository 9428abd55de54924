"""Logs that daemons serve: the run or build with the log that is asked for, and the daemons that can be asked for a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from nodepool_ocb.errors import Denied, Invalid
from nodepool_ocb.images.rules import BuildView
from nodepool_ocb.model.ranges import is_loopback
from nodepool_ocb.model.records import Daemon, NodeRole

if TYPE_CHECKING:
    from nodepool_ocb.http.following import Found, LogPlaces
    from nodepool_ocb.http.logs import LogAccess
    from nodepool_ocb.store.client.session import Session

MOST_BYTES: Final = 1 << 20  # of a log in a document
NO_KEY: Final = "this cluster has no key for logs yet; make one: nodepool-ocb init"


class RunChosen(msgspec.Struct, frozen=True):
    """The run with the log that was asked for."""

    role: str
    node: str
    jig: str
    record: NodeRole
    run: str


class BuildChosen(msgspec.Struct, frozen=True):
    """The build with the log that was asked for."""

    image: str
    build: BuildView


class AskedLog(Protocol):
    """A log that daemons serve, as of the last look."""

    regrows: bool

    @property
    def places(self) -> LogPlaces: ...
    @property
    def ended(self) -> bool: ...
    def look(self) -> bool: ...
    def ask(self, offset: int, wait_seconds: float) -> tuple[str, Found]:
        """The place and the piece from a byte on."""


def on_this_host(host: str) -> bool:
    """True if a daemon with this host in its record runs on this host."""
    import socket  # here, so that the help of a noun does not load it

    return host in (socket.gethostname(), socket.getfqdn())


def daemons(opened: Session, kind: str) -> dict[str, Daemon]:
    """The running daemons with readable records, by id. Raises Unavailable."""
    from nodepool_ocb.store import daemons

    return {id: said for id, said in daemons.read(opened, kind).items() if said is not None}


def addresses(identity: str | None, host: str, running: Mapping[str, Daemon]) -> dict[str, Daemon]:
    """The daemons that can serve a daemon's logs, by HOST:PORT: itself, then others on its host."""
    found: dict[str, Daemon] = {}
    for id, daemon in sorted(running.items(), key=lambda each: each[0] != identity):
        if daemon.pages and (id == identity or daemon.host == host) and reachable(daemon):
            found.setdefault(daemon.pages, daemon)
    return found


def access(opened: Session, running: Mapping[str, Daemon]) -> LogAccess:
    """The means to read logs at these daemons. Raises Unavailable."""
    from nodepool_ocb.http.logs import LogAccess
    from nodepool_ocb.store import logkeys

    certificates = {each.pages: each.certificate for each in running.values() if each.pages and each.certificate}
    try:
        keys = logkeys.read(opened)
    except (Denied, Invalid) as error:
        return LogAccess(certificates, (), f"the key of the cluster for logs cannot be read: {error}")
    return LogAccess(certificates, keys, "" if keys else NO_KEY)


def reachable(daemon: Daemon) -> bool:
    """True if this host can ask for its pages: those on a loopback address only from the daemon's own host."""
    host = (daemon.pages or "").rpartition(":")[0].strip("[]")
    return not is_loopback(host) or on_this_host(daemon.host)
