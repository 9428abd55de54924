"""The records of tokens, and the note of their last use."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from contextlib import suppress

from msgspec.structs import replace

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Invalid, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Set
from nodepool_ocb.model.tokens import Token, is_id
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session


def read(session: Session, unread: MutableMapping[str, str] | None = None) -> Mapping[str, Stored[Token]]:
    """The tokens that can be read, by id. ``unread`` gets the reason for each other path. Raises Unavailable or Denied."""
    ids = sorted(session.children(paths.TOKENS) or ())
    found: dict[str, Stored[Token]] = {}
    for id, znode in zip(ids, session.get_many([paths.token(id) for id in ids]), strict=True):
        if znode is None:
            continue  # gone meanwhile
        try:
            found[id] = _stored(znode)
        except Invalid as spoiled:
            if unread is not None:
                unread[znode.path] = str(spoiled)
    return found


def one(session: Session, id: str) -> Stored[Token] | None:
    """The token of this id; None without one, and for a record that cannot be read. Raises Unavailable or Denied."""
    znode = session.get(paths.token(id)) if is_id(id) else None
    with suppress(Invalid):
        return None if znode is None else _stored(znode)
    return None


def note_use(session: Session, id: str, found: Stored[Token], now: float) -> None:
    """Write the time of the last use, unless another writer was faster. Raises Unavailable or Denied."""
    with suppress(Stale):
        session.commit([Set(paths.token(id), replace(found.record, used=now), found.version)])


def _stored(znode: Znode) -> Stored[Token]:
    return Stored(codec.decode(Token, znode), znode.version, znode.mzxid)
