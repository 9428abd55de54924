"""``rollout select``: the nodes that the selectors of a strategy mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Node
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.operations.selection import MatchNodes
from nodepool_ocb.rollout import selectors as selecting
from nodepool_ocb.views.rollouts import strategies
from nodepool_ocb.views.rollouts.strategies import Selected

if TYPE_CHECKING:
    from nodepool_ocb.rollout.strategy import Selector

READS = (MatchNodes,)


class RolloutSelect(Operation[list[Selected]], frozen=True, kw_only=True):
    """The nodes that any of the selectors means."""

    noun = "rollout"
    verb = "select"
    right = Right.VIEWER
    reads = (ReadWorld, *READS)

    selectors: tuple[str, ...] = ()  # as in a strategy; none: all nodes
    deployment: str
    selector: str | None = None  # only of these nodes

    def decide(self, situation: Situation) -> Steps[list[Selected]]:  # noqa: ARG002
        """Raises Invalid for wrong selectors."""
        meant = parsed(self.selectors)
        world = yield from ReadWorld()
        deployment_of(world, self.deployment)
        nodes = yield from inventory(world, self.deployment, self.selector)
        return strategies.selected(selecting.select(meant, nodes), nodes)


def parsed(texts: Iterable[str]) -> list[Selector]:
    """The selectors; raises Invalid with the faults of all."""
    from nodepool_ocb.rollout import reading

    problems: list[str] = []
    found = []
    for number, text in enumerate(texts, 1):
        try:
            found.append(reading.selector(text, f"selector {number}"))
        except Invalid as wrong:
            problems += wrong.problems
    if problems:
        raise Invalid(problems)
    return found


def inventory(world: World, deployment: str, selector: str | None) -> Steps[Mapping[str, Node]]:
    """The machines of a deployment that a rollout may have: all in service, or those that a selector means."""
    meant = yield from MatchNodes(selector)
    every = selecting.inventory(world, deployment)
    served = {name: node for name, node in every.items() if node.decommissioned is None}
    return {name: node for name, node in served.items() if meant is None or name in meant}
