"""The marks of calls with an idempotency key, and of plans: the outcome of a call is written, and old marks are deleted."""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.keyed import KEPT_SECONDS, PLAN_KEPT_SECONDS, KeyedCall, is_plan
from nodepool_ocb.model.records import Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import discard


def one(session: Session, id: str) -> Stored[KeyedCall] | None:
    """The mark of a call; None for a call that has written nothing. Raises Unavailable, Denied or Invalid."""
    znode = session.get(paths.call(id))
    return None if znode is None else Stored(codec.decode(KeyedCall, znode), znode.version, znode.mzxid)


def end(session: Session, id: str, outcome: str | None) -> None:
    """Write the outcome of a call that has a mark without one. Raises the errors of ``session.commit`` but Stale."""
    found = one(session, id)
    if found is not None and not found.record.ended:
        with suppress(Stale):
            Session.commit(
                session, [Set(paths.call(id), replace(found.record, ended=True, outcome=outcome), found.version)]
            )


def sweep(session: Session, *, plans_only: bool = False) -> int:
    """Delete the marks that were written ``KEPT_SECONDS`` ago, and those of plans that no longer are valid; gives how many.

    Raises the errors of ``session.commit``.
    """
    ids = sorted(id for id in session.children(paths.CALLS) or () if is_plan(id) or not plans_only)
    if not ids:
        return 0
    now = session.now()
    kept = [PLAN_KEPT_SECONDS if is_plan(id) else KEPT_SECONDS for id in ids]
    found = zip(session.get_many([paths.call(id) for id in ids]), kept, strict=True)
    old = [znode.path for znode, seconds in found if znode is not None and znode.mtime < now - seconds]
    discard(session, old)
    return len(old)
