"""A noderole among its neighbours, the cluster that stands between many, and the node that carries both.

Each knows its world, and takes distant records from it. This module does not change them: ``World`` and ``Edges`` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Claim, Fence, Node, NodeRole, State

if TYPE_CHECKING:  # the world holds vertices, and each vertex names its world
    from nodepool_ocb.engine.world.world import World


def _shown(part: Vertex | ClusterView | NodeView) -> str:
    """A part of the graph by its name alone: its relatives lead to the whole graph."""
    return f"<{type(part).__name__} {part.name}>"


class Vertex(msgspec.Struct, eq=False, gc=False):
    """A noderole in the graph. ``version`` is -1 for one that is planned and not written yet."""

    name: str
    role: str
    node: NodeView
    record: NodeRole
    version: int = -1
    mzxid: int = 0
    waiting: int = 0  # parents that are not satisfied or do not exist; a cluster counts as one
    below: Sequence[Vertex] = ()  # the noderoles that name this one as a parent

    __repr__ = _shown

    @property
    def hooks(self) -> tuple[str, ...]:
        """The hooks that its role has."""
        stored = self.node.world.roles.get(self.role)
        return stored.record.hooks if stored else ()

    @property
    def destructive(self) -> bool:
        """Whether it must not be run a second time: its role is destructive, or was when it ran."""
        stored = self.node.world.roles.get(self.role)
        return self.record.once is not None or (stored is not None and "destructive" in stored.record.flags)

    @property
    def clusters(self) -> Sequence[ClusterView]:
        """The clusters that it is a member of."""
        if not self.record.rare.serves:  # asked for each noderole that turns
            return ()
        return [self.node.world.cluster_view(role, self.record.deployment) for role in self.record.serves]

    @property
    def above(self) -> list[Vertex | ClusterView]:
        """The parents that exist, clusters unopened; looked up, for it is asked seldom and would cost much memory."""
        found = map(self.node.world.parent, self.record.parents)
        return [parent for parent in found if parent is not None]

    @property
    def parents(self) -> list[Vertex]:
        """The noderoles that it waits for and that exist, each once."""
        return list(opened(self.above))

    @property
    def children(self) -> Sequence[Vertex]:
        """The noderoles that wait for it, each once."""
        if not self.record.serves:
            return self.below
        return list(dict.fromkeys([*self.below, *(child for cluster in self.clusters for child in cluster.below)]))

    @property
    def certain(self) -> bool:
        """Whether every record of its world can be read."""
        return not self.node.world.unreadable

    @property
    def unreadable(self) -> bool:
        """Whether its record cannot be read; ``record`` is then the last good one."""
        unreadable = self.node.world.unreadable
        return bool(unreadable) and paths.noderole(self.role, self.node.name) in unreadable

    @property
    def unknown(self) -> list[str]:
        """The names of its parents with unreadable records, and of those that may be its parents."""
        world = self.node.world
        if not world.unreadable:
            return []
        return [hidden for name in self.record.parents for hidden in world.hidden(name)]

    @property
    def lacking(self) -> int:
        """The number of parents known to be unsatisfied: ``waiting`` without those that only an unreadable record adds."""
        world = self.node.world
        return self.waiting - (sum(map(world.doubts, self.record.parents)) if world.unreadable else 0)


class ClusterView(msgspec.Struct, eq=False):
    """The noderoles that serve as one role in one deployment, and those that wait for all of them.

    ``gate`` is the version of its gate, never newer than the members that are shown (store.world.cache); -1 where there is none.
    """

    role: str
    deployment: str
    name: str  # "role@*deployment"
    gate: int = -1
    mzxid: int = 0
    members: dict[Vertex, None] = {}
    below: list[Vertex] = []
    waiting: int = 1  # members that are not satisfied; 1 where there is no member

    __repr__ = _shown


class NodeView(msgspec.Struct, eq=False):
    """A node with its noderoles, claim and fence. ``record`` is None while only its children have been seen."""

    name: str
    world: World
    record: Node | None = None
    version: int = -1
    mzxid: int = 0
    fence: int = -1
    newest: Fence | None = None  # the record of the fence: the newest claim
    claim: Claim | None = None
    claim_owner: int = 0  # the session that holds the claim
    claim_version: int = -1
    noderoles: dict[str, Vertex] = {}
    ready: set[Vertex] = set()  # noderoles in a state in which an annealer may take them
    failed: set[Vertex] = set()  # those of task lists that are in ERROR
    stands_for: int = 1  # nodes, itself included: more in a CensusWorld

    __repr__ = _shown

    @property
    def epoch(self) -> int:
        """The epoch of its newest claim. It never falls, not even if the node is deleted and created again."""
        return (self.record.epoch_base if self.record else 0) + self.fence

    @property
    def busy(self) -> Vertex | None:
        """The noderole in TRANSITION on this node, if there is one."""
        return min((v for v in self.ready if v.record.state is State.TRANSITION), key=lambda v: v.name, default=None)


def opened(above: Iterable[Vertex | ClusterView]) -> dict[Vertex, None]:
    """The noderoles themselves, with the members of the clusters among them; each once."""
    found: dict[Vertex, None] = {}
    for each in dict.fromkeys(above):
        if isinstance(each, ClusterView):
            found |= each.members
        else:
            found[each] = None
    return found


def ordered_with(vertex: Vertex) -> str | None:
    """The jig of the newest run of a noderole in TRANSITION; None if the fence does not have it."""
    newest = vertex.node.newest
    return newest.jig if newest is not None and newest.run == vertex.record.run else None


def ancestors(vertex: Vertex) -> list[list[Vertex]]:
    """Everything above a noderole, by distance: parents first, each noderole at its greatest distance only."""
    distance: dict[Vertex, int] = {}
    level, depth = opened(vertex.above), 1
    while level and depth <= len(distance) + 1:  # in a circle there would be no end
        for parent in level:
            distance[parent] = depth
        level, depth = opened(grand for parent in level for grand in parent.above), depth + 1
    rows: list[list[Vertex]] = [[] for _ in range(max(distance.values(), default=0))]
    for parent in sorted(distance, key=lambda v: v.name):
        rows[distance[parent] - 1].append(parent)
    return rows
