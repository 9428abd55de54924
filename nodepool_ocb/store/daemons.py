"""The daemons of a kind that have a session now, and the pauses of those of a host."""

from __future__ import annotations

from contextlib import suppress

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon, DaemonPause
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.reading import SessionReads


def read(session: SessionReads, kind: str, unread: dict[str, str] | None = None) -> dict[str, Daemon | None]:
    """The registration of each daemon of this kind, by its id; None if it cannot be decoded. ``unread`` gets the reason
    for its path.

    Raises Unavailable or Denied.
    """
    ids = sorted(session.children(paths.daemons(kind)) or ())
    found: dict[str, Daemon | None] = {}
    for id, znode in zip(ids, session.get_many([paths.daemon(kind, id) for id in ids]), strict=True):
        if znode is None:
            continue  # gone meanwhile
        try:
            found[id] = codec.decode(Daemon, znode)
        except Invalid as spoiled:
            found[id] = None
            if unread is not None:
                unread[znode.path] = str(spoiled)
    return found


def pause(session: SessionReads, kind: str, host: str) -> Stored[DaemonPause] | None:
    """The record that pauses the daemons of a kind on a host, None if there is none; raises Invalid, Unavailable or
    Denied.
    """
    znode = session.get(paths.daemon_pause(kind, host))
    return None if znode is None else Stored(codec.decode(DaemonPause, znode), znode.version, znode.mzxid)


def pauses(session: SessionReads) -> dict[tuple[str, str], DaemonPause]:
    """All that can be read, by kind and host; raises Unavailable or Denied."""
    hosts = [
        (kind, host) for kind in paths.PAUSABLE_KINDS for host in session.children(paths.daemon_pauses(kind)) or ()
    ]
    found: dict[tuple[str, str], DaemonPause] = {}
    for key, znode in zip(
        sorted(hosts), session.get_many([paths.daemon_pause(*key) for key in sorted(hosts)]), strict=True
    ):
        with suppress(Invalid):
            if znode is not None:
                found[key] = codec.decode(DaemonPause, znode)
    return found
