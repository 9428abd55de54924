"""Numbers that ZooKeeper gives to children, where some came with their numbers from elsewhere."""

from __future__ import annotations

from typing import Final

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.limits import MOST_CHANGES
from nodepool_ocb.model.records import Change, Create, Delete, Json, Record
from nodepool_ocb.store.client.session import Session

FARTHEST: Final = 100_000  # how far the numbers are raised at most
_DIGITS: Final = 10
_AT_ONCE: Final = MOST_CHANGES // 2  # pairs


def raise_beyond(session: Session, parent: str, number: int) -> None:
    """Let later calls of ``create_next`` below ``parent`` give numbers above ``number``; no znode is left behind.

    ZooKeeper counts the children that were ever created, so some are created and deleted. A second call does no harm.
    Raises Invalid if the number is too far away, and the exceptions of commit.
    """
    probe = session.create_next(f"{parent}/number-", None, ephemeral=True)
    session.commit([Delete(probe, 0)])
    missing = number - int(probe[-10:])
    if missing > FARTHEST:
        raise Invalid(
            f"{parent}: number {number} is more than {FARTHEST} above those that were given so far; delete it from the document"
        )
    pair: list[Change] = [Create(f"{parent}/number"), Delete(f"{parent}/number", 0)]
    while missing > 0:
        session.commit(pair * min(missing, _AT_ONCE))
        missing -= _AT_ONCE


def create_above(session: Session, parent: str, data: Record | Json, number: int = -1) -> str:
    """Create the child of ``parent`` with the first number above ``number`` and above those of its children; gives the path.

    For children that came with their numbers from elsewhere: ``create_next`` may give such a number, and then fails each
    time. Raises Stale if another client takes the number, and the exceptions of commit.
    """
    known = [int(name) for name in session.children(parent) or () if len(name) == _DIGITS and name.isdecimal()]
    path = f"{parent}/{max([*known, number]) + 1:0{_DIGITS}}"
    session.commit([Create(path, data)])
    return path
