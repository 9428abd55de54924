"""The part of a document of a node or a deployment that a caller with limits may see. Pure.

A node, and a deployment beside a selector, may have noderoles outside the limits. Their names and states are left out. A claim
stays, without the name of its noderole: it tells that the node is busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.operations.deployments.reading import DeploymentShown
from nodepool_ocb.views import deployments, nodes
from nodepool_ocb.views.deployments import DeploymentBranch, DeploymentRow
from nodepool_ocb.views.nodes import NodeDocument, NodeRow

OUTSIDE: Final = "outside the limits of this token"


class NamesWithin(msgspec.Struct, frozen=True):
    """The world, and the names of the noderoles and of the deployments within."""

    world: World
    noderoles: frozenset[str]
    deployments: frozenset[str]

    def own(self, vertices: Iterable[Vertex]) -> list[Vertex]:
        return [vertex for vertex in vertices if vertex.name in self.noderoles]


def others(within: NamesWithin, node: str) -> int:
    """The number of the noderoles of a node that are outside."""
    view = within.world.nodes.get(node)
    return 0 if view is None else len(view.noderoles) - len(within.own(view.noderoles.values()))


def _node(within: NamesWithin, document: NodeDocument) -> NodeDocument:
    claim = document.claim
    if claim is not None and claim.noderole not in within.noderoles:
        claim = replace(claim, noderole=OUTSIDE)
    own = tuple(each for each in document.noderoles if each.noderole in within.noderoles)
    return replace(document, noderoles=own, claim=claim)


def _nodes(within: NamesWithin, rows: list[NodeRow]) -> list[NodeRow]:
    found = []
    for row in rows:
        view = within.world.nodes.get(row.name)
        own = nodes.summary(within.own(view.noderoles.values()) if view is not None else ())
        busy = row.busy if row.busy is None or row.busy in within.noderoles else OUTSIDE
        found.append(replace(row, state=own.state, noderoles=own.noderoles, busy=busy))
    return found


def _deployment(within: NamesWithin, shown: DeploymentShown) -> DeploymentShown:
    document = shown.document
    own = tuple(each for each in document.noderoles if each.noderole in within.noderoles)
    below = tuple(name for name in document.below if name in within.deployments)
    tree = _pruned(shown.tree, {document.name, *within.deployments})
    return DeploymentShown(replace(document, noderoles=own, below=below), tree or DeploymentBranch(document.name))


def _pruned(branch: DeploymentBranch, names: set[str]) -> DeploymentBranch | None:
    """The branch with the deployments of these names, and those above them."""
    below = tuple(each for each in (_pruned(child, names) for child in branch.below) if each is not None)
    return DeploymentBranch(branch.name, below) if below or branch.name in names else None


def _deployments(within: NamesWithin, rows: list[DeploymentRow]) -> list[DeploymentRow]:
    own = {row.name: row.noderoles for row in deployments.rows(within.world, 0.0, within.noderoles)}
    return [replace(row, noderoles=own.get(row.name)) for row in rows]


#: The operations with such documents, by class.
PARTS: Final[Mapping[str, Callable[[NamesWithin, Any], Any]]] = {
    "DeploymentList": _deployments,
    "DeploymentShow": _deployment,
    "NodeList": _nodes,
    "NodeShow": _node,
}
