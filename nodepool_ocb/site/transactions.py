"""Groups of changes in few transactions, each group whole; the world is advanced with them. Pure.

Each transaction carries the version of the structure, because its decision relies on absent records too. In one
transaction a znode is written once.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodepool_ocb.engine import structure
from nodepool_ocb.engine.advancing import advance
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Check, Raise, Set


class Packing:
    """``transactions`` are those that are full; ``close`` ends the last one."""

    def __init__(self, world: World) -> None:
        self.transactions: list[tuple[Change, ...]] = []
        self.world = world
        self._begin()

    def _begin(self) -> None:
        self._part: list[Change] = []
        self._written: set[str] = set()
        self._size = 0
        self._raises = False

    def take(self, changes: Sequence[Change]) -> None:
        """Put in a group that was decided from the world as it is now; its own change of the structure is one for all."""
        raises = any(isinstance(change, Set) and change.path == paths.STRUCTURE for change in changes)
        group = [change for change in changes if change.path != paths.STRUCTURE]
        fresh = [change for change in group if not self._covered(change)]
        size = sum(map(limits.size, fresh))
        twice = any(change.path in self._written for change in fresh)
        full = len(self._part) + len(fresh) + 1 > limits.MOST_CHANGES or self._size + size > limits.MOST_BYTES
        if self._part and (twice or full):
            self.close()
            fresh, size = group, sum(map(limits.size, group))
        self._part += fresh
        self._written |= {change.path for change in fresh if not isinstance(change, Check)}
        self._size += size
        self._raises |= raises
        advance(self.world, fresh)

    def _covered(self, change: Change) -> bool:
        """Whether the transaction does not need this change: it already creates or raises the znode."""
        return isinstance(change, Check | Raise) and change.path in self._written

    def whole(self, transaction: Sequence[Change]) -> None:
        """Add a transaction that was cut already."""
        self.close()
        held = () if _has_structure(transaction) else (structure.unchanged(self.world),)
        self.transactions.append((*held, *transaction))
        advance(self.world, transaction)

    def close(self) -> None:
        """End the transaction that is being filled."""
        if not self._part:
            return
        before = structure.stored(self.world)
        own = Set(paths.STRUCTURE, before.record, before.version) if self._raises else structure.unchanged(self.world)
        self.transactions.append((*self._part, own))
        if self._raises:
            self.world.put(Stored(before.record, before.version + 1))
        self._begin()


class FirstChange(Exception):
    """A plan has a change; no person sees it."""


class NoPacking(Packing):
    """Of a plan without changes: the world stays as it is. Raises FirstChange for any other."""

    def take(self, changes: Sequence[Change]) -> None:
        if changes:
            raise FirstChange

    def whole(self, transaction: Sequence[Change]) -> None:  # noqa: ARG002
        raise FirstChange


def _has_structure(transaction: Sequence[Change]) -> bool:
    return any(change.path == paths.STRUCTURE for change in transaction)
