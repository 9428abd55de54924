"""Was a transaction applied whose answer never came? Decided from what its znodes look like now. Pure.

Whoever reads must have synced first. A transaction is all or nothing, so one znode that tells is enough:

- a Set whose version is still the old one, or whose next version holds other data: not applied;
- a Set whose next version holds our data (which names its run, its time and its author): applied;
- a Create that holds our data at version 0: applied; other data at version 0: not applied;
- a Delete whose znode is still there at the version: not applied.

"Not applied" is certain and goes before "applied", which rests on equal data.

A gate that was raised tells nothing: anybody may raise it. Nor does what was appended, for nobody knows its name, and what
one transaction creates and then deletes.

What is absent tells less, for others may have deleted it: it counts only where no znode above tells, and only
where the absent ones agree. What is left is Unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from nodepool_ocb.model.records import Append, Change, Check, Create, Delete, Raise, Set
from nodepool_ocb.store.client.frames import Znode, ZnodeStat


class Verdict(StrEnum):
    """What became of a transaction."""

    APPLIED = "applied"
    REFUSED = "refused"  # somebody else was first
    LOST = "lost"  # it never arrived, and could be sent again
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """The verdict, and for REFUSED the path that moved on."""

    verdict: Verdict
    path: str = ""


def find(changes: Sequence[Change], data: Sequence[bytes], found: Sequence[Znode | None]) -> Finding:
    """What became of ``changes``, whose data was ``data`` (b"" where there is none), when ``found`` is there now."""
    seen = [
        (change, znode, _look(change, wrote, znode)) for change, wrote, znode in zip(changes, data, found, strict=True)
    ]
    passing = set(_passing(changes))
    writes = [each for each in seen if not isinstance(each[0], Check | Raise | Append) and each[0].path not in passing]
    verdicts = {verdict for _, _, verdict in writes}
    if verdicts & {Verdict.LOST, Verdict.REFUSED}:
        moved = next((change.path for change, _, verdict in seen if verdict is Verdict.REFUSED), None)
        return Finding(Verdict.LOST) if moved is None else Finding(Verdict.REFUSED, moved)
    if Verdict.APPLIED in verdicts:
        return Finding(Verdict.APPLIED)
    hints = {_absent(change, znode) for change, znode, _ in writes}
    return Finding(hints.pop() if len(hints) == 1 else Verdict.UNKNOWN)


def _passing(changes: Sequence[Change]) -> Iterator[str]:
    """The paths that these changes create and then delete."""
    created: set[str] = set()
    for change in changes:
        if isinstance(change, Create):
            created.add(change.path)
        elif isinstance(change, Delete) and change.path in created:
            yield change.path


def _absent(change: Change, znode: Znode | None) -> Verdict:
    """What it means that there is nothing, if nothing else is known."""
    if znode is not None or isinstance(change, Set):
        return Verdict.UNKNOWN
    return Verdict.APPLIED if isinstance(change, Delete) else Verdict.LOST


def stats(changes: Sequence[Change], found: Sequence[Znode | None]) -> list[ZnodeStat | None]:
    """What the lost answer of an applied transaction would have said, as well as it can be known."""
    return [
        ZnodeStat(znode.version, znode.mzxid, znode.ephemeral_owner, znode.mtime if isinstance(change, Set) else 0.0)
        if znode is not None and isinstance(change, Create | Set | Raise)
        else None
        for change, znode in zip(changes, found, strict=True)
    ]


def _look(change: Change, wrote: bytes, znode: Znode | None) -> Verdict | None:
    """What this one znode says, None where it says nothing for certain."""
    if isinstance(change, Check):
        return Verdict.REFUSED if znode is None or znode.version != change.version else None
    if znode is None or isinstance(change, Raise | Append):
        return None
    if isinstance(change, Create):
        if znode.version == 0 and znode.data == wrote:
            return Verdict.APPLIED
        # an ephemeral of somebody else may have come after ours went with its session
        return None if change.ephemeral or znode.version else Verdict.REFUSED
    if znode.version == change.version:
        return Verdict.LOST
    if isinstance(change, Set) and znode.version == change.version + 1:
        return Verdict.APPLIED if znode.data == wrote else Verdict.REFUSED
    return None
