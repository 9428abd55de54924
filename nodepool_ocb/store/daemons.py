"""The daemons of a kind that have a session now."""

from __future__ import annotations

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.reading import Reading


def read(session: Reading, kind: str, unread: dict[str, str] | None = None) -> dict[str, Daemon | None]:
    """What each says of itself, by its id; None where that cannot be decoded, and ``unread`` gets the reason for its path.

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
