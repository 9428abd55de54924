"""All records that were read, by kind: put and dropped one by one, and looked up.

A World keeps most kinds as they were read, in one mapping for each kind (``of``); a new kind of record needs no code here.
Nodes, noderoles, claims, fences and gates have methods of their own, for they make up the graph.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec.structs

from nodepool_ocb.engine.noderole import claimable, failed, satisfied
from nodepool_ocb.engine.world.edges import Edges
from nodepool_ocb.engine.world.vertex import ClusterView, NodeView, Vertex
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.joining import Inventory
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import (
    Claim,
    Cluster,
    Daemon,
    Deployment,
    DeploymentRole,
    Fence,
    Node,
    NodeRole,
    Record,
    Role,
    RolloutPointer,
    Structure,
    TaskRunPointer,
)

#: The kinds of records that an ``inputs.Catalogue`` is made from.
_CATALOGUED: Final = frozenset({Role, DeploymentRole, Inventory})

T = TypeVar("T", bound=Record)
T_co = TypeVar("T_co", bound=Record, covariant=True)


class Stored(msgspec.Struct, Generic[T_co], frozen=True, gc=False):
    """A record as it was read: with the version that a write must carry."""

    record: T_co
    version: int
    mzxid: int = 0


class _PlaceIndex(Protocol):
    """An index of the places of nodes, kept by a caller that needs it often (engine.addressing)."""

    def put(self, fqdn: str, record: Node | None) -> None:
        """Put the present record of a node; None if it is deleted."""


class World:
    """One consistent-enough view of the tree below ``/ocb``."""

    def __init__(self) -> None:
        self.spoiled: dict[str, str] = {}  # path of attributes that are known to be undecodable → the reason
        self._kept: dict[type[Record], dict[Any, Stored[Any]]] = {}
        self.roles: dict[str, Stored[Role]] = self.of(Role)
        self.deployments: dict[str, Stored[Deployment]] = self.of(Deployment)
        self._lines: dict[str, tuple[str, ...]] = {}  # deployment → it and all above it
        self.paused: dict[str, Maintenance] = {}  # the pauses in the records of deployments, with those that are over
        self.catalogue = 0  # rises with each role, attributes of a deployment, or inventory that is put or dropped
        self.deployment_roles: dict[tuple[str, str], Stored[DeploymentRole]] = self.of(DeploymentRole)
        self.nodes: dict[str, NodeView] = {}
        self.places: _PlaceIndex | None = None  # None until a caller sets it
        self.daemons: dict[str, dict[str, Daemon]] = {}  # by kind and id
        self.rollouts: dict[str, Stored[RolloutPointer]] = self.of(RolloutPointer)  # by deployment
        self.task_runs: dict[str, Stored[TaskRunPointer]] = self.of(TaskRunPointer)  # by deployment
        self.edges = Edges(self.nodes)
        self.clusters = self.edges.clusters  # by name
        self.unreadable: dict[str, str] = {}  # path of a record that cannot be decoded → why
        self.put(Stored(Structure(), 0))  # a new tree's; never newer than the rest

    @property
    def cluster(self) -> Stored[Cluster] | None:
        return self.of(Cluster).get(())

    @property
    def structure(self) -> Stored[Structure] | None:
        return self.of(Structure).get(())

    @property
    def annealers(self) -> dict[str, Daemon]:
        return self.daemons.get("annealer", {})

    def may_run(self, annealer: str) -> bool:
        """Whether an annealer is registered; an unreadable registration counts, because a session holds it."""
        return annealer in self.annealers or paths.daemon("annealer", annealer) in self.unreadable

    # -- looking up --

    def vertex(self, name: str) -> Vertex | None:
        """The noderole ``role@fqdn``, or None."""
        role, _, fqdn = name.partition("@")
        node = self.nodes.get(fqdn)
        return node.noderoles.get(role) if node else None

    def parent(self, name: str) -> Vertex | ClusterView | None:
        """The noderole, or the cluster with members, that a name in ``parents`` means; None if there is none."""
        role, _, fqdn = name.partition("@")
        node = self.nodes.get(fqdn)
        if node is not None:
            return node.noderoles.get(role)
        cluster = self.clusters.get(name)
        return cluster if cluster is not None and cluster.members else None

    def cluster_view(self, role: str, deployment: str) -> ClusterView:
        """The cluster of this role; an empty one is created if it is not known."""
        return self.edges.cluster(role, deployment)

    def below(self, name: str) -> Sequence[Vertex]:
        """The children of a noderole; of one that was never seen, those that it may have."""
        vertex = self.vertex(name)
        if vertex is not None:
            return vertex.children
        clusters = (cluster for cluster in self.clusters.values() if self.may_serve(name, cluster.role))
        return [*self.edges.awaiting(name), *(child for cluster in clusters for child in cluster.below)]

    def line(self, deployment: str) -> Sequence[str]:
        """A deployment and all above it, as far as they are there, itself first."""
        if deployment not in self._lines:
            self._lines[deployment] = self._line(deployment)
        return self._lines[deployment]

    def _line(self, deployment: str) -> tuple[str, ...]:
        found = [deployment]
        while (stored := self.deployments.get(found[-1])) is not None:
            parent = stored.record.parent
            if parent is None or parent in found:  # a circle, which only a hand makes
                break
            found.append(parent)
        return tuple(found)

    def vertices(self) -> Iterator[Vertex]:
        for node in self.nodes.values():
            yield from node.noderoles.values()

    def counted(self) -> Iterator[Vertex]:
        """The noderoles to count, each ``stands_for`` times of its node: all of them, one time, but in a CensusWorld."""
        return self.vertices()

    def depth(self, vertex: Vertex) -> int:
        """The number of noderoles above it on the longest way up; 0 at the top."""
        return self.edges.depth(vertex)

    def role_of(self, vertex: Vertex) -> Role:
        """Raises NotFound if the role was never imported here."""
        stored = self.roles.get(vertex.role)
        if stored is None:
            raise NotFound(f"role {vertex.role} is not known; import the barclamp that defines it")
        return stored.record

    # -- unreadable records --

    def hides(self, name: str) -> bool:
        """Whether the record of the noderole ``role@fqdn`` is there and cannot be read."""
        role, _, fqdn = name.partition("@")
        return paths.noderole(role, fqdn) in self.unreadable

    def hidden(self, name: str) -> list[str]:
        """The noderoles that a record's ``parents`` means by this name, as far as they are there and cannot be read.

        One that was never seen may be in any deployment, so it counts for every cluster that its role may serve.
        """
        of_cluster = paths.split_cluster(name)
        if of_cluster is None:
            return [name] if self.hides(name) else []
        cluster = self.clusters.get(name)
        seen = [member.name for member in cluster.members if member.unreadable] if cluster is not None else []
        return seen + [each for each in self._never_seen() if self.may_serve(each, of_cluster[0])]

    def doubts(self, name: str) -> bool:
        """Whether a parent counts as not satisfied only because of unreadable records."""
        if not self.hidden(name):
            return False
        parent = self.parent(name)
        if isinstance(parent, ClusterView):
            known = (member for member in parent.members if not member.unreadable)
            return parent.waiting > 0 and all(satisfied(member.record) for member in known)
        return parent is None or not satisfied(parent.record)

    def _never_seen(self) -> Iterator[str]:
        for path in self.unreadable:
            match path.split("/")[2:]:
                case ["nodes", fqdn, "noderoles", role] if self.vertex(f"{role}@{fqdn}") is None:
                    yield f"{role}@{fqdn}"

    def may_serve(self, name: str, role: str) -> bool:
        """Whether a noderole ``role@fqdn``, or one of a role, may be a member of a cluster of this role."""
        own = name.partition("@")[0]
        stored = self.roles.get(own)
        return own == role or (stored is not None and role in stored.record.provides)

    # -- records that were read --

    def of(self, kind: type[T]) -> dict[Any, Stored[T]]:
        """The records of a kind without a view of its own. The key is the name, or a tuple of the names in the path."""
        return self._kept.setdefault(kind, {})

    def put(self, stored: Stored[Any], *names: str) -> None:
        """Put a record of a kind without a view of its own; ``names`` are those in its path."""
        kind = type(stored.record)
        self.of(kind)[_key(names)] = stored
        self._index(kind, names, stored.record)

    def drop(self, kind: type[Record], *names: str) -> bool:
        """Show such a record no more; False if it was not shown."""
        dropped = self.of(kind).pop(_key(names), None) is not None
        self._index(kind, names, None)
        return dropped

    def put_all(self, other: World) -> None:
        """Show all such records that another world shows."""
        for kept in other._kept.values():
            for key, stored in kept.items():
                self.put(stored, *((key,) if isinstance(key, str) else key))

    def _index(self, kind: type[Record], names: tuple[str, ...], record: Record | None) -> None:
        """Keep the parts of records that are asked for often."""
        if kind in _CATALOGUED:
            self.catalogue += 1
        if kind is Deployment:
            self._lines.clear()
            pause = record.pause if isinstance(record, Deployment) else None
            if pause is not None:
                self.paused[names[0]] = pause
            else:
                self.paused.pop(names[0], None)
        elif kind is Daemon:
            registered = self.daemons.setdefault(names[0], {})
            if isinstance(record, Daemon):
                registered[names[1]] = record
            else:
                registered.pop(names[1], None)

    def node(self, fqdn: str) -> NodeView:
        """The node of this name; an empty one is created if it is not known."""
        view = self.nodes.get(fqdn)
        if view is None:
            fqdn = sys.intern(fqdn)
            view = self.nodes[fqdn] = NodeView(fqdn, self)
        return view

    def put_node(self, fqdn: str, record: Node, version: int, mzxid: int = 0) -> NodeView:
        view = self.node(fqdn)
        view.record, view.version, view.mzxid = record, version, mzxid
        if self.places is not None:
            self.places.put(view.name, record)
        return view

    def drop_node(self, fqdn: str) -> None:
        view = self.nodes.get(fqdn)
        if view is not None:
            for role in list(view.noderoles):
                self.drop_noderole(fqdn, role)
            del self.nodes[fqdn]
            if self.places is not None:
                self.places.put(fqdn, None)

    def put_fence(self, fqdn: str, version: int, newest: Fence | None = None) -> None:
        view = self.node(fqdn)
        view.fence, view.newest = version, newest

    def put_claim(self, fqdn: str, claim: Claim | None, owner: int = 0, version: int = -1) -> None:
        view = self.node(fqdn)
        view.claim, view.claim_owner, view.claim_version = claim, owner, version

    def put_gate(self, deployment: str, role: str, version: int, mzxid: int = 0) -> None:
        cluster = self.cluster_view(role, deployment)
        cluster.gate, cluster.mzxid = version, mzxid

    def put_noderole(self, fqdn: str, role: str, record: NodeRole, version: int = -1, mzxid: int = 0) -> Vertex:
        """Put a noderole, new or changed, in its place in the graph."""
        node = self.node(fqdn)
        vertex = node.noderoles.get(role)
        if vertex is None:
            vertex = self.edges.place(node, role, record, version, mzxid)
            if claimable(record):
                node.ready.add(vertex)
            if failed(record):
                node.failed.add(vertex)
            return vertex
        self.change_noderole(vertex, record, version, mzxid)
        return vertex

    def change_noderole(self, vertex: Vertex, record: NodeRole, version: int, mzxid: int) -> None:
        """Put another record in the place of a noderole's."""
        ready, failures = vertex.node.ready, vertex.node.failed
        if claimable(record) is not (vertex in ready):
            (ready.discard if vertex in ready else ready.add)(vertex)
        if failed(record) is not (vertex in failures):
            (failures.discard if vertex in failures else failures.add)(vertex)
        self.edges.change(vertex, record, version, mzxid)

    def drop_noderole(self, fqdn: str, role: str) -> None:
        node = self.nodes.get(fqdn)
        vertex = node.noderoles.get(role) if node else None
        if vertex is not None:
            vertex.node.ready.discard(vertex)
            vertex.node.failed.discard(vertex)
            self.edges.remove(vertex)


def _key(names: tuple[str, ...]) -> str | tuple[str, ...]:
    return sys.intern(names[0]) if len(names) == 1 else names


def node_of(world: World, fqdn: str) -> NodeView:
    """Raises NotFound, or Conflict if its record was never read whole."""
    view = world.nodes.get(fqdn)
    if paths.node(fqdn) in world.unreadable and (view is None or view.record is None):
        raise Conflict(f"the record {paths.node(fqdn)} cannot be read; see: nodepool-ocb status")
    if view is None or view.record is None:
        raise NotFound(f"node {fqdn} does not exist; see: nodepool-ocb node list")
    return view
