"""The edges between noderoles, and the counters of unsatisfied parents at their ends.

A counter changes by the number of parents that turned, and nothing is counted again. So putting a record costs in proportion
to its own edges, and to its children if it turns. A named parent that does not exist (yet) counts as not satisfied.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec.structs

from nodepool_ocb.engine.noderole import renewing, satisfied
from nodepool_ocb.engine.world.refreshing import Refreshing
from nodepool_ocb.engine.world.vertex import ClusterView, NodeView, Vertex
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import NodeRole, State

#: Children fewer than this are a tuple, which is half as large as a list; more are a list, which grows cheaply.
FEW: Final = 8


class Edges:
    """The edges between the noderoles of ``nodes``, which may grow."""

    def __init__(self, nodes: Mapping[str, NodeView]) -> None:
        self.clusters: dict[str, ClusterView] = {}  # by name
        self.turned: set[Vertex] = set()  # noderoles with a counter that changed since this set was emptied
        self.refreshing = Refreshing()
        self._nodes = nodes
        self._depths: dict[Vertex | ClusterView, int] = {}  # forgotten when an edge changes
        self._awaited: dict[str, list[Vertex]] = {}  # parents named by a noderole, and not here (yet)

    def cluster(self, role: str, deployment: str) -> ClusterView:
        """The cluster of this role; an empty one is created if it is not known."""
        name = paths.cluster_name(role, deployment)
        found = self.clusters.get(name)
        if found is None:
            found = self.clusters[name] = ClusterView(role, deployment, name)
        return found

    def awaiting(self, name: str) -> Sequence[Vertex]:
        """The noderoles that name a missing noderole as a parent."""
        return self._awaited.get(name, ())

    def depth(self, vertex: Vertex) -> int:
        """The number of noderoles above it on the longest way up; 0 at the top."""
        if vertex in self._depths:
            return self._depths[vertex]
        depths, entered = self._depths, set[Vertex | ClusterView]()
        stack: list[Vertex | ClusterView] = [vertex]
        while stack:
            top = stack[-1]
            own = not isinstance(top, ClusterView)  # a cluster is as deep as its deepest member
            above = list(top.members) if isinstance(top, ClusterView) else top.above
            unknown = [parent for parent in above if parent not in depths and parent not in entered]
            if unknown and top not in entered:
                stack.extend(unknown)
                entered.add(top)
            else:  # in a circle, which no bind makes but a hand may, the edge that closes it does not count
                depths[top] = own + max((depths.get(parent, -1) for parent in above), default=-1)
                stack.pop()
        return depths[vertex]

    # -- noderoles come, change and go --

    def place(self, node: NodeView, role: str, record: NodeRole, version: int, mzxid: int) -> Vertex:
        """Put a noderole that was not here in its place in the graph."""
        role = sys.intern(role)
        name = f"{role}@{node.name}"
        vertex = Vertex(name, role, node, record, version, mzxid)
        node.noderoles[role] = vertex
        if renewing(record):
            self.refreshing.vertices.add(vertex)
        if record.parents:
            self._link(vertex)
        if record.rare.serves:
            self._join(vertex)
        if name in self._awaited:
            self._reshaped()
            for child in self._awaited.pop(name):
                names = [name if each == name else each for each in child.record.parents]
                msgspec.structs.force_setattr(child.record, "parents", tuple(names))
                _adopt(vertex, child)
            if satisfied(record):
                self._turn(vertex.below, +1)
        return vertex

    def change(self, vertex: Vertex, record: NodeRole, version: int, mzxid: int) -> None:
        """Put another record in the place of a noderole's."""
        before = vertex.record
        turned = satisfied(record) - satisfied(before)
        moved = record.parents != before.parents
        joined = (record.rare.serves, record.deployment) != (before.rare.serves, before.deployment)
        if moved:
            self._unlink(vertex)  # from the parents that it had
        else:  # equal names, which the parents hold already
            msgspec.structs.force_setattr(record, "parents", before.parents)
        if joined:
            self._leave(vertex)
        vertex.record, vertex.version, vertex.mzxid = record, version, mzxid
        if renewing(record) != renewing(before):
            self._refresh(vertex)
        if turned:
            self._turn(vertex.below, turned)
        if joined:
            self._join(vertex)
        elif turned and before.rare.serves:
            for cluster in vertex.clusters:
                self._count(cluster, -turned)
        if moved:
            self._link(vertex)

    def remove(self, vertex: Vertex) -> None:
        """Take a noderole away; its children await it from now on."""
        del vertex.node.noderoles[vertex.role]
        self.turned |= self.refreshing.end(vertex)
        self._unlink(vertex)
        self._leave(vertex)
        if satisfied(vertex.record):
            self._turn(vertex.below, -1)
        if vertex.below:
            self._awaited.setdefault(vertex.name, []).extend(vertex.below)
        vertex.below = ()

    def _refresh(self, vertex: Vertex) -> None:
        """Note whether it is to be run again in place; if not, the noderoles that waited for it may be."""
        if renewing(vertex.record):
            self.refreshing.vertices.add(vertex)
        else:
            self.turned |= self.refreshing.end(vertex)

    def _reshaped(self) -> None:
        """Edges changed, and all that was found by walking along them may be otherwise."""
        self._depths.clear()
        self.turned |= self.refreshing.forget()

    # -- parents --

    def _link(self, vertex: Vertex) -> None:
        names: list[str] = []  # the very strings that the parents hold: each is in several records of a large graph
        waiting = 0
        nodes = self._nodes
        for name in vertex.record.parents:
            role, _, fqdn = name.partition("@")  # as World.vertex does: this loop is most of loading a large tree
            if fqdn[:1] == "*":
                cluster = self.cluster(role, fqdn[1:])
                cluster.below.append(vertex)
                names.append(cluster.name)
                waiting += cluster.waiting > 0
                continue
            node = nodes.get(fqdn)
            parent = node.noderoles.get(role) if node is not None else None
            if parent is None:
                self._awaited.setdefault(name, []).append(vertex)
                names.append(name)
                waiting += 1
            else:
                _adopt(parent, vertex)
                names.append(parent.name)
                if parent.record.state is not State.ACTIVE and not satisfied(parent.record):
                    waiting += 1
        vertex.waiting = waiting
        msgspec.structs.force_setattr(vertex.record, "parents", tuple(names))  # equal to the former names
        self._reshaped()

    def _unlink(self, vertex: Vertex) -> None:
        for name in vertex.record.parents:
            parent = self.clusters.get(name) or self._vertex(name)
            if isinstance(parent, ClusterView):
                parent.below.remove(vertex)
            elif parent is not None:
                parent.below = tuple([child for child in parent.below if child is not vertex])
        for name, waiting in list(self._awaited.items()) if vertex.waiting else ():
            if vertex in waiting:
                waiting.remove(vertex)
                if not waiting:
                    del self._awaited[name]
        self._reshaped()

    def _vertex(self, name: str) -> Vertex | None:
        role, _, fqdn = name.partition("@")
        node = self._nodes.get(fqdn)
        return node.noderoles.get(role) if node is not None else None

    # -- clusters --

    def _join(self, vertex: Vertex) -> None:
        for cluster in vertex.clusters:
            first = not cluster.members
            cluster.members[vertex] = None
            self._count(cluster, (not satisfied(vertex.record)) - first)
        if vertex.record.serves:
            self._reshaped()

    def _leave(self, vertex: Vertex) -> None:
        for cluster in vertex.clusters:
            cluster.members.pop(vertex, None)
            last = not cluster.members
            self._count(cluster, last - (not satisfied(vertex.record)))
        if vertex.record.serves:
            self._reshaped()

    def _count(self, cluster: ClusterView, more: int) -> None:
        """Add a number of unsatisfied members to a cluster's counter; its children turn if it begins or ceases to wait."""
        waited = cluster.waiting > 0
        cluster.waiting += more
        if waited is not (cluster.waiting > 0):
            self._turn(cluster.below, +1 if waited else -1)

    def _turn(self, children: Iterable[Vertex], good: int) -> None:
        """Each has one parent more (+1) or less (-1) that is satisfied."""
        for child in children:
            child.waiting -= good
            self.turned.add(child)


def _adopt(parent: Vertex, child: Vertex) -> None:
    children = parent.below
    if isinstance(children, list):
        children.append(child)
    elif len(children) < FEW:
        parent.below = (*children, child)
    else:
        parent.below = [*children, child]
