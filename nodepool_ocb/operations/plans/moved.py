"""Records that moved since a decision: their names, and the change between, as the journal knows it.

A refusal names the newest change of each record: its author, its command, its time, and its entry. An annealer changes states
without an entry. A plan comes from its caller: a path that it names is never read, unless the later decision has it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Delete
from nodepool_ocb.operations.plans.saved import ABSENT, PlanBasis
from nodepool_ocb.views import changes
from nodepool_ocb.views.history import entries, placing
from nodepool_ocb.views.times import universal

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

NAMED: Final = 3  # records in a refusal
SEARCHED: Final = 1000  # entries, the newest first
AT_ONCE: Final = 50

#: Raises TimedOut after the deadline of a call.
InTime: TypeAlias = Callable[[], None]


class RecordName(NamedTuple):
    """The kind and the name of a record, as people name it."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class _KnownEntry(NamedTuple):
    """An entry of the journal, and the zxid of its transaction."""

    number: int
    zxid: int
    record: Entry


def name_of(path: str) -> RecordName:
    """The name of the record at a path; the path itself for a part of a record.

    >>> str(name_of("/ocb/nodes/n1.example.com")), str(name_of("/ocb/rollouts/lab/0000000001/groups/a"))
    ('node n1.example.com', 'record /ocb/rollouts/lab/0000000001/groups/a')
    """
    from nodepool_ocb.store.world.paths import parse

    rows = changes.rows([Delete(path, 0)], parse)
    return RecordName(rows[0].kind, rows[0].name) if rows else RecordName("record", path)


def _endless() -> None:
    """The deadline of a call without one."""


def since(opened: Session, planned: PlanBasis, found: PlanBasis, in_time: InTime = _endless) -> str:
    """The difference between two decisions: the records that moved, with their changes; else the records of one of them."""
    known, there = planned.records, found.records
    moved = [path for path, zxid in there.items() if zxid != ABSENT and known.get(path) != zxid]
    if moved:
        return newest_changes(opened, moved, in_time)
    created = [path for path, zxid in there.items() if zxid == ABSENT and known.get(path) != ABSENT]
    left_out = [path for path in known if path not in there]
    sentences = [*_about("it would now create", created), *_about("it no longer concerns", left_out)]
    return "; ".join(sentences) or "it would now make other changes of the same records"


def _about(words: str, records: Sequence[str]) -> Iterator[str]:
    """A sentence with the names of the first records, if there are any."""
    if records:
        names = ", ".join(str(name_of(path)) for path in records[:NAMED])
        more = len(records) - NAMED
        yield f"{words} {names}" + (f", and {more} more" if more > 0 else "")


def newest(opened: Session, found: PlanBasis, in_time: InTime = _endless) -> str:
    """A sentence about the record that changed last, of those that a decision would change."""
    if not any(found.records.values()):
        return "it would now create other records" if found.records else "there is nothing to do any more"
    return newest_changes(opened, [max(found.records, key=lambda path: found.records[path])], in_time)


def newest_changes(
    opened: Session, moved: Sequence[str], in_time: InTime = _endless, among: frozenset[str] | None = None
) -> str:
    """A sentence about the records or branches at these paths: the newest change of each.

    ``among``: a change outside these deployments is not described; the entry of a move would name the former place.
    """
    names = {path: name_of(path) for path in moved[:NAMED]}
    journal = _newest(opened, [name.name for name in names.values()], in_time)
    sentences = [
        _sentence(name, _last_zxid(opened, path), journal.get(name.name), among) for path, name in names.items()
    ]
    more = len(moved) - len(names)
    return "; ".join([*sentences, *([f"and {more} more have changed"] if more else [])])


def _sentence(name: RecordName, zxid: int, entry: _KnownEntry | None, among: frozenset[str] | None) -> str:
    if among is not None and (entry is None or not _is_among(entry.record, among)):
        return f"{name} has changed"
    if entry is None:
        return f"{name} has changed; the journal does not know how: a daemon has moved it, or its entry is gone"
    record = entry.record
    reason = f", reason: {record.reason}" if record.reason else ""
    author = f"{record.login}@{record.host}"
    change = f"{record.verb} by {author} at {universal(record.at)}{reason} (entry {entry.number} of the journal)"
    later = "; a daemon has moved it after that" if zxid > entry.zxid else ""
    return f"{name} has changed; its newest change is {change}{later}"


def _is_among(entry: Entry, deployments: frozenset[str]) -> bool:
    found = placing.deployments(entry)
    return found is not None and found <= deployments


def _last_zxid(opened: Session, path: str) -> int:
    """The zxid of the newest change in a branch; 0 for a branch that is gone."""
    from nodepool_ocb.store.subtree import subtree

    return max((znode.mzxid for znode in subtree(opened, path)), default=0)


def _newest(opened: Session, names: Collection[str], in_time: InTime) -> dict[str, _KnownEntry]:
    """The newest entry about each name."""
    found: dict[str, _KnownEntry] = {}
    for entry in _newest_first(opened, in_time):
        for name in names:
            if name not in found and any(entries.about(subject, [name]) for subject in entry.record.subjects):
                found[name] = entry
        if len(found) == len({*names}):
            break
    return found


def _newest_first(opened: Session, in_time: InTime) -> Iterator[_KnownEntry]:
    from nodepool_ocb.store import journal

    for pool in (False, True):
        numbers = journal.numbers(opened, pool)[::-1][:SEARCHED]
        for start in range(0, len(numbers), AT_ONCE):
            in_time()
            for read in journal.read(opened, numbers[start : start + AT_ONCE], pool):
                if read.entry is not None:
                    yield _KnownEntry(read.number, read.zxid, read.entry)
