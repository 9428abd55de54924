"""The versions of records: a digest of the mzxids of all znodes in some branches of the tree.

Two equal digests mean that no record there was written, created or deleted meanwhile. A digest depends on no clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from nodepool_ocb.errors import VersionDiffers
from nodepool_ocb.operations.operation import Lookup
from nodepool_ocb.operations.plans import moved

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Condition, Reader

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


def digest(versions: Iterable[tuple[str, int]]) -> str:
    """The digest of paths with their mzxids, in any order.

    >>> digest([("/a", 1), ("/b", 2)]) == digest([("/b", 2), ("/a", 1)]) != digest([("/a", 1), ("/b", 3)])
    True
    """
    text = "".join(f"{path} {mzxid:x}\n" for path, mzxid in sorted(versions))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LETTERS]


def unchanged(branches: Sequence[str], wanted: Sequence[str]) -> Condition:
    """The condition that these branches have one of the ``wanted`` digests; ``*`` is any state of records that exist."""

    def condition(reader: Reader) -> None:
        found = ReadVersions(tuple(branches)).answer(reader)
        if found is None or (ANY not in wanted and found not in wanted):
            raise VersionDiffers(
                f"{moved.newest_changes(reader.session, branches)}; the request demands another version:"
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
                f" {moved.newest_changes(reader.session, branches)}"
            )

    return condition
