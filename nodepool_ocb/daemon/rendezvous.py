"""The order of annealers at a node: every annealer ranks the living ones by a rendezvous hash, and all come to the same order.

The first acts at once, the k-th waits k short delays: no herd, no queue, no leader, and work is stolen from the dead and
the busy. When an annealer comes or goes only its own nodes change hands.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b


class Ranking:
    """The rank of one annealer among the living, for any node; remembered until the living change."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._others: frozenset[str] = frozenset()
        self._ranks: dict[str, int] = {}

    def among(self, living: Iterable[str]) -> bool:
        """Set the living annealers; returns whether they changed."""
        others = frozenset(living) - {self._own}
        if others == self._others:
            return False
        self._others = others
        self._ranks.clear()
        return True

    def of(self, node: str, without: str | None = None) -> int:
        """0 for the first; ``without``: as if this other one were not there.

        >>> ranking = Ranking("a"); ranking.among(["a", "b"]); sorted({ranking.of(f"n{i}") for i in range(20)})
        True
        [0, 1]
        """
        rank = self._ranks.get(node)
        if rank is None:
            own = _weight(self._own, node)
            rank = self._ranks[node] = sum(_weight(other, node) > own for other in self._others)
        before = without in self._others and _weight(without, node) > _weight(self._own, node)
        return rank - before


def _weight(annealer: str, node: str) -> tuple[bytes, str]:
    return blake2b(f"{node}\0{annealer}".encode(), digest_size=8).digest(), annealer
