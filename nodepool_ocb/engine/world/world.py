"""What ZooKeeper holds, as one process sees it: nodes, noderoles as a graph, roles, deployments, daemons, and which
rollout counts in each deployment.

Filled by store.tree and kept by store.cache; read by whoever decides. A view may be old: every decision is written with
the versions that it was made from, so a stale one is refused. Each noderole knows its neighbours and counts the parents
that it waits for; putting a record costs in proportion to its own edges and to its children when it turns. A cluster
stands between its members and their children, so that N members and M children cost N + M.

A record that cannot be decoded is named in ``unreadable``. The last good one stays where there was one, to be shown and
for its edges; nothing is decided from it, and nothing from its absence (nodepool_ocb.engine.unreadable).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

import msgspec.structs

from nodepool_ocb.engine.noderole import claimable, satisfied
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
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
    State,
    Structure,
)

T = TypeVar("T", bound=Record)


class Stored(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A record as it was read: with the version that a write must carry."""

    record: T
    version: int
    mzxid: int = 0


#: Children fewer than this are a tuple, which is half as large as a list; more are a list, which grows cheaply.
FEW: Final = 8


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

    @property
    def hooks(self) -> tuple[str, ...]:
        """The hooks that its role has."""
        stored = self.node.world.roles.get(self.role)
        return stored.record.hooks if stored else ()

    @property
    def clusters(self) -> Sequence[ClusterView]:
        """The clusters that it is a member of."""
        if not self.record.serves:
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
        """The names of the noderoles that it waits for, or may wait for, and whose records cannot be read."""
        world = self.node.world
        if not world.unreadable:
            return []
        return [hidden for name in self.record.parents for hidden in world.hidden(name)]

    @property
    def lacking(self) -> int:
        """How many parents are known not to be satisfied: ``waiting``, without what only an unreadable record makes wait."""
        world = self.node.world
        return self.waiting - (sum(map(world.doubts, self.record.parents)) if world.unreadable else 0)


class ClusterView(msgspec.Struct, eq=False):
    """The noderoles that serve as one role in one deployment, and those that wait for all of them.

    ``gate`` is the version of its gate, never newer than the members that are shown (store.cache); -1 where there is none.
    """

    role: str
    deployment: str
    name: str  # "role@*deployment"
    gate: int = -1
    mzxid: int = 0
    members: dict[Vertex, None] = {}
    below: list[Vertex] = []
    waiting: int = 1  # members that are not satisfied; 1 where there is no member


class NodeView(msgspec.Struct, eq=False):
    """A node and what hangs below it. ``record`` is None while only its children have been seen."""

    name: str
    world: World
    record: Node | None = None
    version: int = -1
    mzxid: int = 0
    fence: int = -1
    newest: Fence | None = None  # what the fence says of the newest claim
    claim: Claim | None = None
    claim_owner: int = 0  # the session that holds the claim
    claim_version: int = -1
    noderoles: dict[str, Vertex] = {}
    ready: set[Vertex] = set()  # those whose own state lets an annealer take them

    @property
    def epoch(self) -> int:
        """That of its newest claim. It never falls, not even where the node is deleted and created again."""
        return (self.record.epoch_base if self.record else 0) + self.fence

    @property
    def busy(self) -> Vertex | None:
        """The noderole in TRANSITION on this node, if there is one."""
        return next((v for v in self.noderoles.values() if v.record.state is State.TRANSITION), None)


class World:
    """One consistent-enough view of the tree below ``/ocb``."""

    def __init__(self) -> None:
        self.spoiled: dict[str, str] = {}  # path of attributes that cannot be decoded, of which somebody knows → why
        self.cluster: Stored[Cluster] | None = None
        self.structure: Stored[Structure] | None = Stored(Structure(), 0)  # a new tree's; never newer than the rest
        self.roles: dict[str, Stored[Role]] = {}
        self.deployments: dict[str, Stored[Deployment]] = {}
        self.deployment_roles: dict[tuple[str, str], Stored[DeploymentRole]] = {}
        self.nodes: dict[str, NodeView] = {}
        self.daemons: dict[str, dict[str, Daemon]] = {}
        self.rollouts: dict[str, Stored[RolloutPointer]] = {}  # by deployment
        self.clusters: dict[str, ClusterView] = {}  # by name
        self.turned: set[Vertex] = set()  # what waits for more or fewer parents than when this was emptied last
        self.unreadable: dict[str, str] = {}  # path of a record that cannot be decoded → why
        self._depths: dict[Vertex | ClusterView, int] = {}  # forgotten when an edge changes
        self._awaited: dict[str, list[Vertex]] = {}  # parents named by a noderole, and not here (yet)

    @property
    def annealers(self) -> dict[str, Daemon]:
        return self.daemons.get("annealer", {})

    def may_run(self, annealer: str) -> bool:
        """Whether an annealer is registered, be it by a record that cannot be read: somebody's session holds that."""
        return annealer in self.annealers or paths.daemon("annealer", annealer) in self.unreadable

    # -- looking up --

    def vertex(self, name: str) -> Vertex | None:
        """The noderole ``role@fqdn``, or None."""
        role, _, fqdn = name.partition("@")
        node = self.nodes.get(fqdn)
        return node.noderoles.get(role) if node else None

    def parent(self, name: str) -> Vertex | ClusterView | None:
        """What a record's ``parents`` names: a noderole, or a cluster that has members; or None."""
        role, _, fqdn = name.partition("@")
        node = self.nodes.get(fqdn)
        if node is not None:
            return node.noderoles.get(role)
        cluster = self.clusters.get(name)
        return cluster if cluster is not None and cluster.members else None

    def cluster_view(self, role: str, deployment: str) -> ClusterView:
        """The cluster of this role, made empty where nothing has been seen of it."""
        name = paths.cluster_name(role, deployment)
        found = self.clusters.get(name)
        if found is None:
            found = self.clusters[name] = ClusterView(role, deployment, name)
        return found

    def below(self, name: str) -> Sequence[Vertex]:
        """The children of a noderole; of one that was never seen, those that it may have."""
        vertex = self.vertex(name)
        if vertex is not None:
            return vertex.children
        clusters = (cluster for cluster in self.clusters.values() if self._may_serve(name, cluster.role))
        return [*self._awaited.get(name, ()), *(child for cluster in clusters for child in cluster.below)]

    # -- what cannot be read --

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
        return seen + [each for each in self._never_seen() if self._may_serve(each, of_cluster[0])]

    def doubts(self, name: str) -> bool:
        """Whether a parent counts as not satisfied only because of what cannot be read."""
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

    def _may_serve(self, name: str, role: str) -> bool:
        own = name.partition("@")[0]
        stored = self.roles.get(own)
        return own == role or (stored is not None and role in stored.record.provides)

    def vertices(self) -> Iterator[Vertex]:
        for node in self.nodes.values():
            yield from node.noderoles.values()

    def depth(self, vertex: Vertex) -> int:
        """How many noderoles stand above it on the longest way up; 0 at the top."""
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

    def role_of(self, vertex: Vertex) -> Role:
        """Raises NotFound where the role was never imported here."""
        stored = self.roles.get(vertex.role)
        if stored is None:
            raise NotFound(f"role {vertex.role} is not known; import the barclamp that defines it")
        return stored.record

    # -- what was read --

    def put_cluster(self, stored: Stored[Cluster] | None) -> None:
        self.cluster = stored

    def put_structure(self, stored: Stored[Structure] | None) -> None:
        self.structure = stored

    def put_role(self, name: str, stored: Stored[Role]) -> None:
        self.roles[sys.intern(name)] = stored

    def drop_role(self, name: str) -> None:
        self.roles.pop(name, None)

    def put_deployment(self, name: str, stored: Stored[Deployment]) -> None:
        self.deployments[name] = stored

    def drop_deployment(self, name: str) -> None:
        self.deployments.pop(name, None)

    def put_deployment_role(self, deployment: str, role: str, stored: Stored[DeploymentRole]) -> None:
        self.deployment_roles[deployment, role] = stored

    def drop_deployment_role(self, deployment: str, role: str) -> None:
        self.deployment_roles.pop((deployment, role), None)

    def put_daemon(self, kind: str, identity: str, record: Daemon) -> None:
        self.daemons.setdefault(kind, {})[identity] = record

    def drop_daemon(self, kind: str, identity: str) -> None:
        self.daemons.get(kind, {}).pop(identity, None)

    def put_rollouts(self, deployment: str, stored: Stored[RolloutPointer]) -> None:
        self.rollouts[deployment] = stored

    def drop_rollouts(self, deployment: str) -> None:
        self.rollouts.pop(deployment, None)

    def node(self, fqdn: str) -> NodeView:
        """The node of this name, made empty where it has not been seen."""
        view = self.nodes.get(fqdn)
        if view is None:
            fqdn = sys.intern(fqdn)
            view = self.nodes[fqdn] = NodeView(fqdn, self)
        return view

    def put_node(self, fqdn: str, record: Node, version: int, mzxid: int = 0) -> NodeView:
        view = self.node(fqdn)
        view.record, view.version, view.mzxid = record, version, mzxid
        return view

    def drop_node(self, fqdn: str) -> None:
        view = self.nodes.get(fqdn)
        if view is not None:
            for role in list(view.noderoles):
                self.drop_noderole(fqdn, role)
            del self.nodes[fqdn]

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
            return self._place(node, role, record, version, mzxid)
        turned = satisfied(record) - satisfied(vertex.record)
        moved = record.parents != vertex.record.parents
        joined = (record.serves, record.deployment) != (vertex.record.serves, vertex.record.deployment)
        if claimable(record) != claimable(vertex.record):
            (node.ready.discard if vertex in node.ready else node.ready.add)(vertex)
        if moved:
            self._unlink(vertex)  # from the parents that it had
        if joined:
            self._leave(vertex)
        before, vertex.record, vertex.version, vertex.mzxid = vertex.record, record, version, mzxid
        if turned:
            self._turn(vertex.below, turned)
        if joined:
            self._join(vertex)
        elif turned and before.serves:
            for cluster in vertex.clusters:
                self._count(cluster, -turned)
        if moved:
            self._link(vertex)
        return vertex

    def drop_noderole(self, fqdn: str, role: str) -> None:
        node = self.nodes.get(fqdn)
        vertex = node.noderoles.pop(role, None) if node else None
        if vertex is None:
            return
        vertex.node.ready.discard(vertex)
        self._unlink(vertex)
        self._leave(vertex)
        if satisfied(vertex.record):
            self._turn(vertex.below, -1)
        if vertex.below:
            self._awaited.setdefault(vertex.name, []).extend(vertex.below)
        vertex.below = ()

    # -- edges --

    def _place(self, node: NodeView, role: str, record: NodeRole, version: int, mzxid: int) -> Vertex:
        role = sys.intern(role)
        name = f"{role}@{node.name}"
        vertex = Vertex(name, role, node, record, version, mzxid)
        node.noderoles[role] = vertex
        if claimable(record):
            node.ready.add(vertex)
        if record.parents:
            self._link(vertex)
        if record.serves:
            self._join(vertex)
        if name in self._awaited:
            self._depths.clear()
            for child in self._awaited.pop(name):
                names = [name if each == name else each for each in child.record.parents]
                msgspec.structs.force_setattr(child.record, "parents", tuple(names))
                _adopt(vertex, child)
            if satisfied(record):
                self._turn(vertex.below, +1)
        return vertex

    def _link(self, vertex: Vertex) -> None:
        names: list[str] = []  # the very strings that the parents hold: each is in several records of a large graph
        waiting = 0
        nodes = self.nodes
        for name in vertex.record.parents:
            role, _, fqdn = name.partition("@")  # as vertex() does: this loop is most of loading a large tree
            if fqdn[:1] == "*":
                cluster = self.cluster_view(role, fqdn[1:])
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
        msgspec.structs.force_setattr(vertex.record, "parents", tuple(names))  # equal to what they were
        self._depths.clear()

    def _unlink(self, vertex: Vertex) -> None:
        for name in vertex.record.parents:
            parent = self.clusters.get(name) or self.vertex(name)
            if isinstance(parent, ClusterView):
                parent.below.remove(vertex)
            elif parent is not None:
                parent.below = tuple([child for child in parent.below if child is not vertex])
        for name, waiting in list(self._awaited.items()) if vertex.waiting else ():
            if vertex in waiting:
                waiting.remove(vertex)
                if not waiting:
                    del self._awaited[name]
        self._depths.clear()

    # -- clusters --

    def _join(self, vertex: Vertex) -> None:
        for cluster in vertex.clusters:
            first = not cluster.members
            cluster.members[vertex] = None
            self._count(cluster, (not satisfied(vertex.record)) - first)
        if vertex.record.serves:
            self._depths.clear()

    def _leave(self, vertex: Vertex) -> None:
        for cluster in vertex.clusters:
            cluster.members.pop(vertex, None)
            last = not cluster.members
            self._count(cluster, last - (not satisfied(vertex.record)))
        if vertex.record.serves:
            self._depths.clear()

    def _count(self, cluster: ClusterView, more: int) -> None:
        """So many more of its members are not satisfied; its children turn where that makes it wait, or wait no more."""
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
    """The jig with which the newest run of a noderole in TRANSITION was ordered; None where nothing says so."""
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


def node_of(world: World, fqdn: str) -> NodeView:
    """Raises NotFound, or Conflict where its record was never read whole."""
    view = world.nodes.get(fqdn)
    if paths.node(fqdn) in world.unreadable and (view is None or view.record is None):
        raise Conflict(f"the record {paths.node(fqdn)} cannot be read; nodepool-ocb status says why")
    if view is None or view.record is None:
        raise NotFound(f"node {fqdn} does not exist; see: nodepool-ocb node list")
    return view
