"""``node create``: one node, or many with names and addresses from a template."""

from __future__ import annotations

import itertools
import re
from collections.abc import Set
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.engine import nodes
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Node
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.nodes.domain import admin_domain
from nodepool_ocb.operations.nodes.jigs import active_jigs
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld

PLACE: Final = re.compile(r"\{(?::0(\d))?\}")  # of the number in a template, and its least digits


class NodeCreate(Operation[Explained], frozen=True, kw_only=True):
    """Create a node; the roles for new nodes are bound to it, unless it is virtual.

    With ``count``, ``name`` and each address are templates. Each node is a round: nodes that were made stay if a later one fails.
    """

    noun = "node"
    verb = "create"
    right = Right.OPERATOR
    reads = (ReadWorld,)
    writes = ("node", "noderole", "deployment role")

    name: str
    node: Node
    as_configured: bool = False  # ``available`` is as the configuration of the performer's host says
    count: int | None = None
    first: int = 1  # the lowest number, with ``count``

    @property
    def rounds(self) -> int:
        return self.count or 1

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        deployment_of(world, self.node.deployment)
        fqdn, node = self._free(world, {change.path for change in situation.written})
        if self.as_configured:
            node = replace(node, available=situation.settings.nodes.available)
        plan = nodes.create(
            world,
            fqdn,
            node,
            admin_domain=admin_domain(world, situation.settings),
            now=situation.now,
            jigs=active_jigs(world),
            by=situation.by,
        )
        yield plan.changes
        return Explained(explanations=tuple(plan.explanations), notes=tuple(plan.elsewhere))

    def _free(self, world: World, taken: Set[str]) -> tuple[str, Node]:
        """With the lowest free number; ``taken``: the paths that a dry run would have made."""
        if self.count is None:
            return self.name, self.node
        there = {paths.node(name) for name in world.nodes} | taken | world.unreadable.keys()
        number = next(n for n in itertools.count(self.first) if paths.node(filled(self.name, n)) not in there)
        addresses = tuple(filled(address, number) for address in self.node.addresses)
        return filled(self.name, number), replace(self.node, addresses=addresses)


def is_template(text: str) -> bool:
    """True if the text has a place for a number."""
    return PLACE.search(text) is not None


def filled(template: str, number: int) -> str:
    """The template with a number in each place.

    >>> filled("web-{:03}.example.com", 7), filled("10.0.0.{}", 7)
    ('web-007.example.com', '10.0.0.7')
    """
    return PLACE.sub(lambda place: f"{number:0{place.group(1) or 1}d}", template)
