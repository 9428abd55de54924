"""The noderoles that a picture shows: those of a deployment, or those that a selector means, found again as the world changes."""

from __future__ import annotations

import time

from nodepool_ocb.engine import selection
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.operations.commits import outdated
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.performer import Performer


class Scope:
    """``has`` states of a noderole whether it is within, by the world of the last ``look``."""

    def __init__(self, performer: Performer, deployment: str | None, selector: str | None) -> None:
        """Raises NotFound for a name that does not exist, and Invalid for a wrong selector."""
        self.performer = performer
        self._deployment = deployment
        self._expression = None if selector is None else selection.parse(selector)
        self._meant: set[str] = set()
        with performer.session() as opened:
            self._ahead = opened.now() - time.monotonic()
            if deployment is not None or selector is not None:
                self._begin(performer.load(opened))

    def _begin(self, world: World) -> None:
        if self._deployment is not None:
            deployment_of(world, self._deployment)
        self._meant = self._find(world)

    @property
    def now(self) -> float:
        """The time by ZooKeeper's clock, which is asked one time."""
        return time.monotonic() + self._ahead

    def has(self, vertex: Vertex) -> bool:
        """True if the noderole is within."""
        if self._expression is not None and vertex.name not in self._meant:
            return False
        return self._deployment in (None, vertex.record.deployment)

    def look(self, world: World) -> set[str]:
        """The nodes with noderoles that came into it or left it."""
        before = self._meant
        try:
            self._meant = self._find(world)
        except NotFound:  # a name in the selector is gone, and may come again
            self._meant = set()
        return {name.partition("@")[2] for name in before ^ self._meant}

    def _find(self, world: World) -> set[str]:
        if self._expression is None:
            return set()
        facts = selection.SelectionFacts(
            self.now, lambda found: self.performer.read(outdated.find(world, found)).vertices
        )
        return {vertex.name for vertex in selection.noderoles(world, self._expression, facts)}
