"""The pools of running launchers: the candidates for a request, the pools that declined it, and the owner of shared work. Pure.

A member is *active* if its launcher runs and begins new work. Nodepool's own launchers are members too: a request is theirs as
much as ours, and it does not fail before they have declined it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodepool_ocb.pool.ranking import owner, ranked
from nodepool_ocb.pool.views import PoolMember, RequestView

PoolKey = tuple[str, str]  # provider and pool


class Membership:
    """The members of one view, by id, by pool and by session."""

    def __init__(self, members: Iterable[PoolMember]) -> None:
        self.all = [each for each in members if each.record.id]
        self.native = [each for each in self.all if each.native]
        self._own: dict[tuple[int, PoolKey], list[str]] = {}
        for each in self.all:
            self._own.setdefault((each.session, each.key), []).append(each.record.id or "")
        self._labels = {each.path: frozenset(each.record.supported_labels) for each in self.all}
        self._keys = {each.record.id or "": each.key for each in self.all}
        self._candidates: dict[tuple[object, ...], list[PoolMember]] = {}

    @staticmethod
    def active(member: PoolMember) -> bool:
        """Whether the member begins new work."""
        return member.record.state == "running" and not member.record.paused

    def offers(self, member: PoolMember, types: Iterable[str]) -> bool:
        """Whether the pool has all the labels."""
        return self._labels[member.path].issuperset(types)

    def candidates(self, request: RequestView) -> list[PoolMember]:
        """The members that may still serve the request: they have its labels and have not declined.

        If the request names a provider, its candidates alone count; without any, the others do, as in Nodepool.
        """
        record = request.record
        key = (record.node_types, record.provider, record.declined_by)
        found = self._candidates.get(key)
        if found is None:
            able = [m for m in self.all if m.record.id not in record.declined_by and self.offers(m, record.node_types)]
            named = [m for m in able if record.provider and m.record.provider_name == record.provider]
            found = self._candidates[key] = named or able
        return found

    def declined(self, request: RequestView) -> frozenset[PoolKey]:
        """The pools that declined the request with each of their running launchers."""
        if not request.record.declined_by:
            return frozenset()
        found = {self._keys[each] for each in request.record.declined_by if each in self._keys}
        return frozenset(found - {each.key for each in self.native if each.record.id not in request.record.declined_by})

    def declined_here(self, request: RequestView, session: int | None, key: PoolKey) -> bool:
        """Whether a launcher declined the request for its pool; without a session, whether each launcher with the pool did."""
        if session is None:
            return key in self.declined(request)
        return any(each in request.record.declined_by for each in self._own.get((session, key), ()))

    def ids(self, key: PoolKey) -> tuple[str, ...]:
        """The ids under which this product's launchers have a pool."""
        return tuple(each.record.id or "" for each in self.native if each.key == key)

    def sessions(self, provider: str) -> set[int]:
        """The active launchers of this product with a provider."""
        return {each.session for each in self.native if each.key[0] == provider and self.active(each)}

    def owns(self, session: int, work: str, provider: str | None = None) -> bool:
        """Whether the launcher of ``session`` is the one to do the work, among the active ones (with the provider)."""
        found = (m.session for m in self.native if self.active(m) and (provider is None or m.key[0] == provider))
        return owner(work, set(found)) == session

    def keeper(self, label: str) -> int | None:
        """The launcher that maintains min-ready of the label."""
        found = {
            m.session
            for m in self.native
            if self.active(m) and label in (m.record.supported_labels if m.kept is None else m.kept)
        }
        return owner(f"min-ready/{label}", found)

    def rank(self, session: int, request: RequestView, able: Sequence[PoolMember], missing: dict[PoolKey, int]) -> int:
        """The number of launchers that go before the one of ``session``, among the candidates ``able``.

        The priority of a pool decides, then the number of nodes to launch, then the hash.
        """
        best: dict[int, tuple[int, int]] = {}
        for each in able:
            if self.active(each):
                mark = (each.record.priority, missing.get(each.key, 0))
                best[each.session] = min(best.get(each.session, mark), mark)
        order = {each: place for place, each in enumerate(ranked(request.id, best))}
        places = sorted(best, key=lambda each: (*best[each], order[each]))
        return places.index(session) if session in best else len(places)
