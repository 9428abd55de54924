"""Was a transaction applied if its answer never came? Decided from its znodes as they are now. Pure.

The reader must have synced first. A transaction is all or nothing, so one znode that proves something is enough.

A znode proves that the transaction was applied only if no other writer can have produced its data. Each transaction has a
signature, and each record that it writes holds it (``codec.signed``). So a znode with our data and our signature is proof,
at any version. Equal data without signature proves nothing. This is so for attributes, for empty znodes, and for all that is
absent.

A znode that exists since before the sending (its czxid says so) proves that the transaction was not applied if

- a Create names it;
- a Delete names it;
- a Set names it at the version that is still there, or its next version holds other data;
- a Check names another version, and the znode did not change since the sending.

A znode that was made since the sending proves nothing else: another may have deleted ours and made it anew.

The entry of a journal has a name that the writer does not know. Its reader looks through all entries since the sending
(``Appended``). Every other case is OutcomeUnknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from nodepool_ocb.model.records import Append, Change, Check, Create, Delete, Raise, Record, Set
from nodepool_ocb.store.client.frames import Znode, ZnodeStat

_WRITING: Final = (Create, Set, Raise, Append)  # a union would be made anew with each question


class TransactionFate(StrEnum):
    """The fate of a transaction."""

    APPLIED = "applied"
    REFUSED = "refused"  # another writer was first
    LOST = "lost"  # it never arrived, and could be sent again
    UNKNOWN = "unknown"


class TransactionOutcome(NamedTuple):
    """The verdict; for REFUSED the path that has changed, for APPLIED the zxid of the transaction."""

    verdict: TransactionFate
    path: str = ""
    zxid: int = 0


class Appended(NamedTuple):
    """The result of a look through a journal; ``zxid`` is that of our entry, ``absent``: it is certainly not there."""

    zxid: int = 0
    absent: bool = False


class SentTransaction(NamedTuple):
    """A transaction as it was sent; ``data`` is the data that each change writes, ``zxid`` the newest that was seen before."""

    changes: Sequence[Change]
    data: Sequence[bytes]
    zxid: int


def find(
    sending: SentTransaction, found: Sequence[Znode | None], appended: Sequence[Appended] = ()
) -> TransactionOutcome:
    """The fate of a transaction; ``found`` has the znode at the path of each change now."""
    passing = set(_passing(sending.changes))
    seen = [
        (change, wrote, znode)
        for change, wrote, znode in zip(sending.changes, sending.data, found, strict=True)
        if not isinstance(change, Append) and change.path not in passing
    ]
    for change, wrote, znode in seen:
        if signed(change) and znode is not None and znode.data == wrote:
            return TransactionOutcome(TransactionFate.APPLIED, zxid=_zxid(change, znode))
    if zxid := max((each.zxid for each in appended), default=0):
        return TransactionOutcome(TransactionFate.APPLIED, zxid=zxid)
    deleted = {change.path for change in sending.changes if isinstance(change, Delete)}
    needed = [each for each in seen if not (isinstance(each[0], Create) and each[0].path in deleted)]  # else made anew
    refuted = [_refuted(change, wrote, znode, sending.zxid) for change, wrote, znode in needed]
    if TransactionFate.REFUSED in refuted or TransactionFate.LOST in refuted or any(each.absent for each in appended):
        moved = next((change.path for change, _, znode in needed if _moved(change, znode)), None)
        return (
            TransactionOutcome(TransactionFate.LOST)
            if moved is None
            else TransactionOutcome(TransactionFate.REFUSED, moved)
        )
    return TransactionOutcome(TransactionFate.UNKNOWN)


def signed(change: Change) -> bool:
    """Whether the data that it writes has the signature of its transaction."""
    return isinstance(change, _WRITING) and isinstance(change.data, Record)


def provable(changes: Sequence[Change]) -> bool:
    """Whether one of these changes can prove that all were applied."""
    passing = set(_passing(changes))
    return any(signed(change) and change.path not in passing for change in changes)


def stats(sending: SentTransaction, found: Sequence[Znode | None], zxid: int) -> list[ZnodeStat | None]:
    """The lost answer of an applied transaction, as well as it can be known."""
    return [_stat(change, znode, zxid) for change, znode in zip(sending.changes, found, strict=True)]


def _stat(change: Change, znode: Znode | None, zxid: int) -> ZnodeStat | None:
    ours = znode is not None and znode.mzxid == zxid
    owner = znode.ephemeral_owner if znode is not None and ours else 0
    if isinstance(change, Create):
        return ZnodeStat(0, zxid, owner)
    if isinstance(change, Set):
        return ZnodeStat(change.version + 1, zxid, owner, znode.mtime if znode is not None and ours else 0.0)
    if isinstance(change, Raise) and znode is not None:  # another may have raised it since
        return ZnodeStat(znode.version, znode.mzxid, 0, znode.mtime)
    return ZnodeStat(0, zxid) if isinstance(change, Append) else None


def _zxid(change: Change, znode: Znode) -> int:
    """That of the transaction which wrote the data of this znode; for one that is written twice in it, too."""
    return znode.czxid if isinstance(change, Create) and znode.version == 0 else znode.mzxid


def _passing(changes: Sequence[Change]) -> Iterator[str]:
    """The paths that these changes create and then delete."""
    created: set[str] = set()
    for change in changes:
        if isinstance(change, Create):
            created.add(change.path)
        elif isinstance(change, Delete) and change.path in created:
            yield change.path


def _refuted(change: Change, wrote: bytes, znode: Znode | None, before: int) -> TransactionFate | None:
    """REFUSED or LOST where this znode proves that nothing was applied; ``before``: the zxid at the sending."""
    if znode is None or znode.czxid > before:
        return None
    if isinstance(change, Create):
        return TransactionFate.REFUSED
    if isinstance(change, Check):
        return TransactionFate.REFUSED if znode.version != change.version and znode.mzxid <= before else None
    if isinstance(change, Delete):
        return TransactionFate.LOST if znode.version == change.version else TransactionFate.REFUSED
    if not isinstance(change, Set):
        return None
    if znode.version == change.version:
        return TransactionFate.LOST
    other = znode.version == change.version + 1 and znode.data != wrote
    return TransactionFate.REFUSED if other or znode.mzxid <= before else None


def _moved(change: Change, znode: Znode | None) -> bool:
    """Whether this znode is not as the change needs it."""
    if isinstance(change, Raise | Append):
        return znode is None
    if isinstance(change, Create):
        return znode is not None
    return znode is None or znode.version != change.version
