"""Numbers that ZooKeeper gives to children, where some came with their numbers from elsewhere."""

from __future__ import annotations

from typing import Final

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.limits import MOST_CHANGES
from nodepool_ocb.model.records import Change, Create, Delete
from nodepool_ocb.store.client.session import Session

FARTHEST: Final = 100_000  # how far the numbers are raised at most
_AT_ONCE: Final = MOST_CHANGES // 2  # pairs


def raise_beyond(session: Session, parent: str, number: int) -> None:
    """From now on ``create_next`` below ``parent`` gives numbers above ``number``; nothing is left behind.

    ZooKeeper counts the children that were ever made, so some are made and deleted. Doing it twice does no harm. Raises
    Invalid where the number is too far away, and what commit raises.
    """
    probe = session.create_next(f"{parent}/number-", None, ephemeral=True)
    session.commit([Delete(probe, 0)])
    missing = number - int(probe[-10:])
    if missing > FARTHEST:
        raise Invalid(f"{parent}: number {number} is more than {FARTHEST} above those that were given so far")
    pair: list[Change] = [Create(f"{parent}/number"), Delete(f"{parent}/number", 0)]
    while missing > 0:
        session.commit(pair * min(missing, _AT_ONCE))
        missing -= _AT_ONCE
