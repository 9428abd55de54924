"""The versions of records: a digest of the mzxids of all znodes in some branches of the tree.

Two equal digests mean that no record there was written, created or deleted meanwhile. A digest depends on no clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from nodepool_ocb.errors import VersionDiffers
from nodepool_ocb.model.records import Change, Check
from nodepool_ocb.operations.operation import Lookup
from nodepool_ocb.operations.plans import moved

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Condition, Reader
    from nodepool_ocb.store.client.session import Session, Stats

DIGEST_LETTERS: Final = 24
ANY: Final = "*"  # the present state, whichever it is


class ReadVersions(Lookup["str | None"], frozen=True):
    """The digest of these branches, no older than this call; None if none of them exists."""

    records = "versions of records"

    branches: tuple[str, ...]

    def answer(self, reader: Reader) -> str | None:
        from nodepool_ocb.store.subtree import subtree

        reader.session.sync()
        znodes = [znode for branch in self.branches for znode in subtree(reader.session, branch)]
        return digest((znode.path, znode.mzxid) for znode in znodes) if znodes else None


def seen(session: Session, branch: str) -> Mapping[str, int]:
    """The mzxids of the znodes of a branch by path, no older than this call."""
    session.sync()
    return _mzxids(session, branch)


def written(
    session: Session, branch: str, before: Mapping[str, int], changes: Iterable[Change], committed: Stats
) -> str | None:
    """The digest of a branch as a write left it; ``committed``: of the last transaction, of all ``changes``.

    None if the branch is gone, or if another writer has changed it since ``before``: the caller has not seen that change.
    """
    after = _mzxids(session, branch)
    moved = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    own = {change.path for change in changes if not isinstance(change, Check)}
    newest = max((stat.mzxid for stat in committed if stat is not None), default=0)
    if not after or not moved <= own or any(after.get(path, 0) > newest for path in moved):
        return None
    return digest(after.items())


def _mzxids(session: Session, branch: str) -> dict[str, int]:
    from nodepool_ocb.store.subtree import subtree

    return {znode.path: znode.mzxid for znode in subtree(session, branch)}


def digest(versions: Iterable[tuple[str, int]]) -> str:
    """The digest of paths with their mzxids, in any order.

    >>> digest([("/a", 1), ("/b", 2)]) == digest([("/b", 2), ("/a", 1)]) != digest([("/a", 1), ("/b", 3)])
    True
    """
    text = "".join(f"{path} {mzxid:x}\n" for path, mzxid in sorted(versions))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LETTERS]


def _among(reader: Reader) -> frozenset[str] | None:
    return reader.performer.call.deployments


def unchanged(branches: Sequence[str], wanted: Sequence[str]) -> Condition:
    """The condition that these branches have one of the ``wanted`` digests; ``*`` is any state of records that exist."""

    def condition(reader: Reader) -> None:
        found = ReadVersions(tuple(branches)).answer(reader)
        if found is None or (ANY not in wanted and found not in wanted):
            raise VersionDiffers(
                f"{moved.newest_changes(reader.session, branches, among=_among(reader))}; the request demands another version:"
                " read it again, and repeat the request"
            )

    return condition


def absent(branches: Sequence[str]) -> Condition:
    """The condition that these branches do not exist."""

    def condition(reader: Reader) -> None:
        if ReadVersions(tuple(branches)).answer(reader) is not None:
            names = ", ".join(str(moved.name_of(each)) for each in branches)
            raise VersionDiffers(
                f"{names} exists already, and the request demands that it does not;"
                f" {moved.newest_changes(reader.session, branches, among=_among(reader))}"
            )

    return condition
