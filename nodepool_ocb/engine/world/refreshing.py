"""Noderoles that are to be run again in place, and the order among them.

A noderole waits for all ancestors that are to be run again, at any distance (readiness). It is registered with one of these.
It is looked at again when that one is done, or when edges change. So N members of a cluster and M children cost about N + M.
"""

from __future__ import annotations

from collections.abc import Collection

from nodepool_ocb.engine.world.vertex import ClusterView, Vertex


class Refreshing:
    """``vertices``: the noderoles that are to be run again in place, or are running so."""

    def __init__(self) -> None:
        self.vertices: set[Vertex] = set()
        #: The ancestor that was found: it counts while it is in ``vertices``.
        self._first: dict[Vertex | ClusterView, Vertex] = {}
        self._waiting: dict[Vertex, set[Vertex]] = {}  # the noderoles that wait for it

    def before(self, vertex: Vertex, done: Collection[Vertex] = ()) -> Vertex | None:
        """An ancestor that goes first; ``done``: noderoles with a rerun that a transaction about to be written ends."""
        if self.vertices <= {vertex}:
            return None
        found = self._find(vertex, {vertex}, done)
        if found is not None:
            self._waiting.setdefault(found, set()).add(vertex)
        return found

    def end(self, vertex: Vertex) -> set[Vertex]:
        """Its rerun is over or withdrawn; returns the noderoles that were waiting for it."""
        self.vertices.discard(vertex)
        if not self.vertices:
            self._first.clear()
        return self._waiting.pop(vertex, set()) & self.vertices

    def forget(self) -> set[Vertex]:
        """Forget the order after edges changed; returns the noderoles that were waiting."""
        if not self._first:
            return set()
        waited = {each for waiting in self._waiting.values() for each in waiting if each in self.vertices}
        self._first.clear()
        self._waiting.clear()
        return waited

    def _find(
        self, start: Vertex | ClusterView, seen: set[Vertex | ClusterView], done: Collection[Vertex]
    ) -> Vertex | None:
        """An ancestor that goes first. The result for a cluster is kept for all noderoles below it."""
        known = self._first.get(start)
        if known is not None and known in self.vertices and known not in done:
            return known
        above: list[Vertex | ClusterView] = list(start.members) if isinstance(start, ClusterView) else start.above
        while above:
            each = above.pop()  # the newest member, which most likely is done last
            if each in seen:
                continue
            seen.add(each)
            if isinstance(each, ClusterView):
                found = self._find(each, seen, done)
            elif each in self.vertices and each not in done:
                found = each
            else:
                found = None
                above.extend(each.above)
            if found is not None:
                self._first[start] = found
                return found
        return None
