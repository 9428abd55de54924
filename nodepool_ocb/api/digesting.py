"""The digest of a whole world. After a change only the changed records are hashed again. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

BYTES: Final = 16


class WorldDigest:
    """Remembers the hash of each record. The digest is their sum, so it does not depend on an order."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}  # name → mzxid and hash

    def of(self, versions: Iterable[tuple[str, int]]) -> str:
        """The digest of all records: names with their mzxids.

        >>> digest = WorldDigest()
        >>> first = digest.of([("a", 1), ("b", 2)])
        >>> first == WorldDigest().of([("b", 2), ("a", 1)]) == digest.of([("a", 1), ("b", 2)])
        True
        >>> first in (digest.of([("a", 1), ("b", 3)]), digest.of([("a", 1)]), digest.of([("a", 2), ("b", 1)]))
        False
        """
        before, found, total = self._known, dict[str, tuple[int, int]](), 0
        for name, mzxid in versions:
            known = before.get(name)
            if known is None or known[0] != mzxid:
                known = mzxid, _number(name, mzxid)
            found[name] = known
            total += known[1]
        self._known = found
        return f"{total % (1 << 8 * BYTES):0{2 * BYTES}x}"


def _number(name: str, mzxid: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{name} {mzxid}".encode(), digest_size=BYTES).digest())
