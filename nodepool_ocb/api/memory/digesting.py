"""The digest of a whole world. After a change only the changed groups of records are hashed again. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from nodepool_ocb.model.records import Cluster, Record, Structure
from nodepool_ocb.views.history.recordchanges import KEPT

BYTES: Final = 16
UNREADABLE: Final = "unreadable"

#: The records of a world that lists show, beside nodes and noderoles.
SHOWN: Final[tuple[type[Record], ...]] = (Cluster, Structure, *KEPT)


class WorldDigest:
    """The sum of the hashes of all records, so it does not depend on an order. A group is a node, or a kind of records."""

    def __init__(self) -> None:
        self._groups: dict[str, int] = {}  # the sum of each
        self._total = 0

    def follow(self, world: Any, nodes: Iterable[str], kinds: Iterable[type[Record]]) -> None:
        """Show a world after a change of these nodes, their noderoles, and the records of these kinds."""
        for name in nodes:
            self.put(f"node {name}", _of_node(world, name))
        for kind in kinds:
            if kind in SHOWN:
                self.put(kind.__name__, ((str(name), stored.mzxid) for name, stored in world.of(kind).items()))
        self.put(UNREADABLE, ((path, 0) for path in world.unreadable))

    def put(self, group: str, versions: Iterable[tuple[str, int]]) -> None:
        """Show these records of a group, and no others: names with their mzxids. A group without records is gone."""
        now = sum(_number(group, name, mzxid) for name, mzxid in versions)
        before = self._groups.pop(group, 0)
        if now:
            self._groups[group] = now
        self._total += now - before

    @property
    def text(self) -> str:
        """
        >>> digest, other = WorldDigest(), WorldDigest()
        >>> digest.put("n1", [("a", 1), ("b", 2)])
        >>> digest.put("n2", [("a", 1)])
        >>> other.put("n2", [("a", 1)])
        >>> other.put("n1", [("b", 2), ("a", 1)])
        >>> first = digest.text
        >>> first == other.text
        True
        >>> other.put("n2", [("a", 2)])
        >>> digest.put("n2", [])
        >>> len({first, digest.text, other.text})
        3
        """
        return f"{self._total % (1 << 8 * BYTES):0{2 * BYTES}x}"


def _of_node(world: Any, name: str) -> Iterator[tuple[str, int]]:
    view = world.nodes.get(name)
    if view is not None:
        yield "", view.mzxid
        yield from ((vertex.role, vertex.mzxid) for vertex in view.noderoles.values())


def _number(group: str, name: str, mzxid: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{group} {name} {mzxid}".encode(), digest_size=BYTES).digest())
