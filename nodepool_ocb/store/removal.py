"""Deleting a whole subtree: read first, so that each deletion carries a version, and leaves come before branches."""

from __future__ import annotations

from nodepool_ocb.model import Delete
from nodepool_ocb.store.session import Session


def removal(session: Session, path: str) -> list[Delete]:
    """The deletions that take away ``path`` and all below it, in an order that works; empty where nothing is there.

    Raises Unavailable or Denied.
    """
    found: list[str] = []
    level = [path]
    while level:
        found += level
        below = session.children_many(level)
        level = [f"{parent}/{name}" for parent, names in zip(level, below, strict=True) for name in names or ()]
    znodes = session.get_many(found)
    return [Delete(znode.path, znode.version) for znode in reversed(znodes) if znode is not None]
