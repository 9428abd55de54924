"""How much one transaction may hold, and plans cut to that.

ZooKeeper drops the connection of a client that sends much more than a mebibyte, so the store refuses more than
``TRANSACTION_BYTES`` or ``TRANSACTION_CHANGES``. A divisible plan is cut to half of that, counted in encoded
bytes and in changes. A plan has a part that must *stand together* and a sequence of units that *may follow*, each written
whole or not at all. The watcher of a unit that is cut off decides it again. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from nodepool_ocb.model.records import Change, Check, Delete, NodeRole, Raise

RECORD_BYTES: Final = 256 * 1024  # of one record: refused above, and not read
REQUEST_BYTES: Final = (
    192 * 1024
)  # of a request for nodes that launchers serve: the rest is for the keys that they write
DECLINED_BYTES: Final = 32 * 1024  # of these: the ids of pools that declined; the oldest ids are left out
REASON_CHARACTERS: Final = 2000  # of a reason in a request
FAILED_BYTES: Final = RECORD_BYTES - 4 * 1024  # of a request that a launcher can still fail
BLOB_BYTES: Final = 512 * 1024  # of the attributes in one znode: likewise
TRANSACTION_BYTES: Final = 512 * 1024  # refused above
TRANSACTION_CHANGES: Final = 500
MOST_BYTES: Final = TRANSACTION_BYTES // 2  # aimed at
MOST_CHANGES: Final = TRANSACTION_CHANGES // 2

ENTRY_BYTES: Final = 4 * 1024  # of one entry of the journal, which comes on top of a transaction
ENTRIES: Final = 5000  # of the journal, at most
ENTRIES_LEFT: Final = 4900  # by a writer that finds more than that many
POOL_ENTRIES: Final = 2000  # of launchers, at most
POOL_ENTRIES_LEFT: Final = 1900  # by a launcher that finds more than that many

#: The bytes of a change beside its path and data: headers, a chroot, an ACL of five users.
OVERHEAD_BYTES: Final = 400

#: The bytes of a noderole's record beside its parents and clusters, which have ASCII names, and a reason.
NODEROLE_BYTES: Final = 450

_WITHOUT_DATA: Final = (Check, Delete)  # a union would be made anew with each question

_encode = msgspec.json.Encoder().encode


class Room:
    """A transaction that is being filled; ``changes`` are in it. A gate is raised once in it, however often asked.

    ``beside`` are changes that will be written with it, and are not in it.
    """

    def __init__(self, together: Iterable[Change] = (), beside: Sequence[Change] = ()) -> None:
        self.changes: list[Change] = list(together)
        self._beside = beside
        self._size = -1  # bytes, after a unit was asked for: it encodes the changes in it
        self._raised: set[str] = set()  # the paths of gates

    def take(self, unit: Sequence[Change]) -> bool:
        """Put in a unit, if there is room for all of it; an empty transaction takes any."""
        if self._size < 0:
            self._size = sum(map(size, self.changes)) + sum(map(size, self._beside))
            self._raised = {change.path for change in self.changes if type(change) is Raise}
        fresh, raised = unit, set[str]()
        if Raise in map(type, unit):
            raised = {change.path for change in unit if type(change) is Raise}
            again = raised & self._raised
            fresh = [change for change in unit if change.path not in again]
        total = self._size + sum(map(size, fresh))
        full = len(self.changes) + len(fresh) + len(self._beside) > MOST_CHANGES or total > MOST_BYTES
        if full and self.changes:
            return False
        self.changes += fresh
        self._size = total
        self._raised |= raised
        return True


def size(change: Change) -> int:
    """About how many bytes of a transaction it takes, rather too many than too few."""
    bare = len(change.path) + OVERHEAD_BYTES
    return bare if isinstance(change, _WITHOUT_DATA) else bare + _length(change.data)


def _length(data: object) -> int:
    if type(data) is NodeRole and data.rare.reason is None and data.rare.cancel_reason is None:  # most written records
        names = (*data.parents, *data.rare.serves)
        return NODEROLE_BYTES + len("".join(names)) + 3 * len(names)
    try:
        return len(_encode(data))
    except (TypeError, ValueError, RecursionError):
        return 0  # no JSON: the store says so


def fits(changes: Sequence[Change]) -> bool:
    """Whether one transaction may hold them all, within the aimed size."""
    return len(changes) <= MOST_CHANGES and sum(map(size, changes)) <= MOST_BYTES


def cut(together: Iterable[Change], following: Iterable[Sequence[Change]]) -> list[Change]:
    """One transaction: the part that stands together, and as many of the following units as fit, in their order.

    >>> from nodepool_ocb.model.records import Check
    >>> len(cut([Check("/a", 0)], ([Check(f"/b{n}", 0)] for n in range(400))))
    250
    """
    room = Room(together)
    for unit in following:
        if not room.take(unit):
            break
    return room.changes


def parts(units: Iterable[Sequence[Change]], beside: Sequence[Change] = ()) -> Iterator[list[Change]]:
    """All of the units, in as few transactions as their order allows, each with room for ``beside``."""
    room = Room(beside=beside)
    for unit in units:
        if not room.take(unit):
            yield room.changes
            room = Room(unit, beside)
    if room.changes:
        yield room.changes


def singly(changes: Iterable[Change]) -> Iterator[tuple[Change]]:
    """Each change as a unit of its own."""
    return ((change,) for change in changes)


def apart(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Changes that need not be written at once, in as few transactions as bear them; each raises every gate of all.

    >>> from nodepool_ocb.model.records import Delete, Gate
    >>> raised = Raise("/gate", Gate())
    >>> [part[0] is raised for part in apart([Delete("/a", 0), raised, *(Delete(f"/b{n}", 0) for n in range(300))])]
    [True, True]
    """
    raises = [change for change in changes if isinstance(change, Raise)]
    others = [change for change in changes if not isinstance(change, Raise)]
    return ([*raises, *part] for part in parts(singly(others), beside=raises))
