"""A token by its id. Pure."""

from __future__ import annotations

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.tokens import Token
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.reads.tokens import FoundTokens


def token_of(found: FoundTokens, id: str) -> Stored[Token]:
    """Raises NotFound, or Conflict for a record that cannot be read."""
    if (path := paths.token(id)) in found.unread:
        raise Conflict(f"{found.unread[path]}; see: nodepool-ocb record show {path}")
    if id not in found.readable:
        raise unknown("token", id, found.readable)
    return found.readable[id]
