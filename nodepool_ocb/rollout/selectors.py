"""The nodes that selectors select (seed 003): pure, over the records of nodes.

A selector is the intersection of its criteria, and any value of one criterion matches. A selector without criteria selects
every node. A list of selectors is their union; the empty list selects every node. A node's name is its FQDN, or the part
before the first dot of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from nodepool_ocb.engine.deployments import OF_TASKS, below
from nodepool_ocb.engine.selection.bits import bits, positions
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.records import Node
from nodepool_ocb.rollout.strategy import Selector


def select(selectors: Sequence[Selector], nodes: Mapping[str, Node]) -> list[str]:
    """The names of the nodes that are meant, sorted.

    >>> nodes = {"ntp01.example.com": Node(), "n1.example.com": Node(tags=("control",))}
    >>> select([Selector(node_names=("ntp01",))], nodes)
    ['ntp01.example.com']
    >>> select([], nodes)
    ['n1.example.com', 'ntp01.example.com']
    """
    return Index(nodes).select(selectors)


class Index:
    """Nodes by name, tag, label and rack, for many selectors over the same nodes. A set of nodes is an int's bits."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.names = sorted(nodes)
        self.every = (1 << len(self.names)) - 1
        found: dict[tuple[str, str], list[int]] = {}
        for position, name in enumerate(self.names):
            for key in _keys(name, nodes[name]):
                found.setdefault(key, []).append(position)
        self._having = {key: bits(positions) for key, positions in found.items()}

    def select(self, selectors: Sequence[Selector]) -> list[str]:
        """The names of the nodes that any of the selectors means, sorted."""
        return [self.names[position] for position in positions(self.mask(selectors))]

    def mask(self, selectors: Sequence[Selector]) -> int:
        """The nodes that selectors select, as bits."""
        meant = 0 if selectors else self.every
        for selector in selectors:
            meant |= self._one(selector)
        return meant

    def strangers(self, selectors: Iterable[Selector]) -> list[str]:
        """The names among the selectors' ``node_names`` that no node has."""
        return sorted({name for each in selectors for name in each.node_names if ("name", name) not in self._having})

    def _one(self, selector: Selector) -> int:
        meant = self.every
        criteria = (
            ("name", selector.node_names),
            ("tag", selector.node_tags),
            ("label", selector.node_labels),
            ("rack", selector.rack_names),
        )
        for kind, values in criteria:
            if values:
                any_of = 0
                for value in values:
                    any_of |= self._having.get((kind, value), 0)
                meant &= any_of
        return meant


def _keys(name: str, node: Node) -> Iterator[tuple[str, str]]:
    yield from (("name", each) for each in {name, name.partition(".")[0]})
    yield from (("tag", tag) for tag in set(node.tags))
    yield from (("label", f"{key}:{value}") for key, value in node.labels.items())
    if node.rack is not None:
        yield ("rack", node.rack)


def inventory(world: World, deployment: str) -> dict[str, Node]:
    """The machines of a rollout of a deployment: those of it and of all below it, and those with a noderole in these."""
    return {name: node for name, node in _within(world, deployment) if not node.virtual}


def virtual(world: World, deployment: str) -> list[str]:
    """The virtual nodes that a rollout of the deployment leaves out, though something is bound to them; by name.

    Those of a run of tasks are committed by that run.
    """
    return sorted(
        name
        for name, node in _within(world, deployment)
        if node.virtual and OF_TASKS not in node.labels and world.nodes[name].noderoles
    )


def _within(world: World, deployment: str) -> Iterator[tuple[str, Node]]:
    within = set(below(world, deployment))
    for view in world.nodes.values():
        node = view.record
        if node is None or node.deleting:
            continue
        if node.deployment in within or _bound_within(view.noderoles.values(), within):
            yield view.name, node


def _bound_within(vertices: Iterable[Vertex], within: Collection[str]) -> bool:
    return any(vertex.record.deployment in within for vertex in vertices)


def version(nodes: Mapping[str, Node]) -> str:
    """A digest (16 hex digits) of names, tags, labels and racks: selectors select the same nodes while it is the same."""
    seen = [[name, sorted(node.tags), sorted(node.labels.items()), node.rack] for name, node in sorted(nodes.items())]
    return hashlib.sha256(msgspec.json.encode(seen)).hexdigest()[:16]
