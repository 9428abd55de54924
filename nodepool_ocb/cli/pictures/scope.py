"""Which noderoles a picture is about: those of a deployment, and those that a selector means, found anew with the world."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from nodepool_ocb.cli.kit import session
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.engine import selection
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.operations.commits import outdated
from nodepool_ocb.operations.names import deployment_of


class Scope:
    """``has`` tells of a noderole whether it is in the scope, in the world that was read."""

    def __init__(self, deployment: str | None, selector: str | None) -> None:
        """Raises NotFound for a name that does not exist, and Invalid for a wrong selector."""
        self._deployment = deployment
        self._expression = None if selector is None else selection.parse(selector)
        self._meant: set[str] = set()
        with session.session() as opened:
            self._ahead = opened.now() - time.monotonic()
            if deployment is not None or selector is not None:
                self._begin(session.load(opened))

    def _begin(self, world: World) -> None:
        if self._deployment is not None:
            deployment_of(world, self._deployment)
        self._meant = self._find(world)

    @property
    def now(self) -> float:
        """By ZooKeeper's clock, as it was asked once."""
        return time.monotonic() + self._ahead

    def has(self, vertex: Vertex) -> bool:
        if self._expression is not None and vertex.name not in self._meant:
            return False
        return self._deployment in (None, vertex.record.deployment)

    def look(self, world: World) -> set[str]:
        """Which nodes have noderoles that came into it, or left it."""
        before = self._meant
        try:
            self._meant = self._find(world)
        except NotFound:  # what the selector names is gone, and may come again
            self._meant = set()
        return {name.partition("@")[2] for name in before ^ self._meant}

    def _find(self, world: World) -> set[str]:
        if self._expression is None:
            return set()
        facts = selection.SelectionFacts(self.now, lambda vertices: _outdated(world, vertices))
        return {vertex.name for vertex in selection.noderoles(world, self._expression, facts)}


def _outdated(world: World, vertices: Sequence[Vertex]) -> Iterable[Vertex]:
    with session.session() as opened:
        return performer().read(outdated.find(world, vertices), opened).vertices
