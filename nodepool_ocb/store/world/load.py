"""A World filled from ZooKeeper, in requests of hundreds: all at once, or path by path.

Gates are read before the noderoles, and shown after them; not at all where the structure changed between the listing of the
noderoles and that reading. So the gate that is shown is never newer than its members. Whoever reads path by path keeps to
that himself (store.world.cache).

What cannot be decoded is named in ``world.unreadable``, with the reason; the last good record stays where there was one.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Mapping
from typing import Any

from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.ranges import is_name, is_node
from nodepool_ocb.model.records import (
    Claim,
    Cluster,
    Daemon,
    Deployment,
    DeploymentRole,
    Fence,
    Gate,
    Node,
    NodeRole,
    Record,
    Role,
    RolloutPointer,
    Structure,
    TaskRunPointer,
)
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb.store.world.paths import Listing, WorldPath, listing, misnamed, parse
from nodepool_ocb.store.world.unreadable import Unreadable


def _prefixes(nodes: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    return ((paths.noderoles(fqdn) + "/", roles) for fqdn, roles in nodes.items())


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection meanwhile: a hundred thousand records are made and none is garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Tree:
    """A World, and what it takes to keep it as ZooKeeper is."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._unreadable = Unreadable(world)
        self._touched = ChangeSet()

    def touched(self) -> ChangeSet:
        """What changed since this was last asked."""
        touched, self._touched = self._touched, ChangeSet()
        touched.turned, self.world.edges.turned = self.world.edges.turned, set()
        touched.nodes.update(vertex.node.name for vertex in touched.turned)
        return touched

    def read(self, session: Session, structure: Znode | None) -> list[str]:
        """Read everything, and drop what is gone; raises Unavailable or Denied with part of it done.

        ``structure`` is that znode, read before: it is shown last, so whatever belongs to its version is in the world then.
        Gives the gates that are not shown, for a member may have joined after the noderoles were listed: read them again.
        """
        listed = listing(session)
        names, gates = list(listed.paths()), list(listed.gate_paths())
        with undisturbed():
            of_gates = list(session.stream([*gates, paths.STRUCTURE])) if gates else []
            for path, znode in zip(names, session.stream(names), strict=True):
                self.put(path, znode)
            self._read_noderoles(session, listed.nodes)
        joined = bool(gates) and _mzxid(of_gates.pop()) != _mzxid(structure)
        for path, znode in zip(gates, of_gates, strict=True):
            if not joined:
                self.put(path, znode)
        for path in self._gone(listed):
            self.put(path, None)
        self.put(paths.STRUCTURE, structure)
        return gates if joined else []

    def look_at_spoiled(self, session: Session) -> None:
        """Read again the attributes that could not be read; raises Unavailable or Denied."""
        spoiled = sorted(self.world.spoiled)
        for path, znode in zip(spoiled, session.get_many(spoiled) if spoiled else (), strict=True):
            self.put_attributes(path, znode)

    def put_attributes(self, path: str, znode: Znode | None) -> None:
        """What was read where attributes could not be read; nothing happens where they never were."""
        self._touched.attributes |= self._unreadable.mended(path, znode)

    def spoil(self, path: str, reason: str) -> None:
        """Somebody came across attributes that cannot be read."""
        self.world.spoiled[path] = reason

    def _read_noderoles(self, session: Session, nodes: Mapping[str, list[str]]) -> None:
        """As ``put`` for each; most of a sweep ends at the comparison, most of a first load in the last lines."""
        names = (f"{prefix}{role}" for prefix, roles in _prefixes(nodes) for role in roles)
        znodes = session.stream(names)
        touched = self._touched
        for fqdn, roles in nodes.items():
            shown = self.world.nodes[fqdn].noderoles if fqdn in self.world.nodes else {}
            odd = bool(self._unreadable) or not is_node(fqdn)
            for role, znode in zip(roles, znodes, strict=False):
                if odd or znode is None or role in shown or not is_name(role):
                    vertex = shown.get(role)
                    if znode is None or vertex is None or vertex.mzxid != znode.mzxid:
                        self.put(paths.noderole(role, fqdn), znode)
                    continue
                try:
                    record = codec.decode(NodeRole, znode)
                except Invalid as wrong:
                    odd = True
                    self._hide(WorldPath(NodeRole, fqdn, role), znode, str(wrong))
                    continue
                vertex = self.world.put_noderole(fqdn, role, record, znode.version, znode.mzxid)
                touched.vertices.add(vertex)
                touched.nodes.add(fqdn)

    def put(self, path: str, znode: Znode | None) -> None:
        """Show what was read at ``path``; nothing happens where it is shown already, or is never shown."""
        at = parse(path)
        if at is None:
            self.put_attributes(path, znode)
        elif znode is None:
            self.drop(at)
        elif self.mzxid(at) != znode.mzxid:
            try:
                record = _record(at, znode)
            except Invalid as wrong:
                self._hide(at, znode, str(wrong))
            else:
                self.show(at, record, znode.version, znode.mzxid, znode.ephemeral_owner)

    def mzxid(self, at: WorldPath) -> int:
        """Of what was read there last; 0 where nothing is, and for what the world keeps no mzxid of."""
        world = self.world
        if at in self._unreadable:
            return self._unreadable.mzxid(at)
        shown: Vertex | Stored[Any] | None = None
        if at.kind is NodeRole:
            node = world.nodes.get(at.name)
            shown = node.noderoles.get(at.below) if node else None
        elif at.kind is Node:
            return world.nodes[at.name].mzxid if at.name in world.nodes else 0
        elif at.kind is Role:
            shown = world.roles.get(at.name)
        elif at.kind is Deployment:
            shown = world.deployments.get(at.name)
        elif at.kind is DeploymentRole:
            shown = world.deployment_roles.get((at.name, at.below))
        elif at.kind is RolloutPointer:
            shown = world.rollouts.get(at.name)
        elif at.kind is TaskRunPointer:
            shown = world.task_runs.get(at.name)
        elif at.kind is Gate:
            return world.cluster_view(at.below, at.name).mzxid
        elif at.kind is Cluster:
            return world.cluster.mzxid if world.cluster else 0
        elif at.kind is Structure:
            return world.structure.mzxid if world.structure else 0
        return shown.mzxid if shown else 0

    def show(self, at: WorldPath, record: Record | None, version: int, mzxid: int, owner: int = 0) -> None:
        """Show a record of the kind that belongs there."""
        world, touched = self.world, self._touched
        self._unhide(at)
        if isinstance(record, NodeRole):
            self._show_noderole(at, record, version, mzxid)
        elif isinstance(record, Node):
            world.put_node(at.name, record, version, mzxid)
            touched.nodes.add(at.name)
        elif isinstance(record, Claim):
            view = world.node(at.name)
            if (view.claim, view.claim_owner, view.claim_version) != (record, owner, version):
                world.put_claim(at.name, record, owner, version)
                touched.nodes.add(at.name)
        elif at.kind is Fence:
            if world.node(at.name).fence != version:
                world.put_fence(at.name, version, record if isinstance(record, Fence) else None)
                touched.nodes.add(at.name)
        elif isinstance(record, Role):
            world.put_role(at.name, Stored(record, version, mzxid))
            touched.roles = True
        elif isinstance(record, Gate):
            world.put_gate(at.name, at.below, version, mzxid)
        elif isinstance(record, Deployment):
            world.put_deployment(at.name, Stored(record, version, mzxid))
            touched.deployments = True
        elif isinstance(record, DeploymentRole):
            world.put_deployment_role(at.name, at.below, Stored(record, version, mzxid))
            touched.deployments = True
        elif isinstance(record, Daemon):
            if world.daemons.get(at.name, {}).get(at.below) != record:
                world.put_daemon(at.name, at.below, record)
                touched.daemons = True
        elif isinstance(record, RolloutPointer):
            world.put_rollouts(at.name, Stored(record, version, mzxid))
            touched.rollouts = True
        elif isinstance(record, TaskRunPointer):
            world.put_task_runs(at.name, Stored(record, version, mzxid))
            touched.task_runs = True
        elif isinstance(record, Cluster):
            world.put_cluster(Stored(record, version, mzxid))
        elif isinstance(record, Structure):
            world.put_structure(Stored(record, version, mzxid))

    def _show_noderole(self, at: WorldPath, record: NodeRole, version: int, mzxid: int) -> None:
        self._touched.vertices.add(self.world.put_noderole(at.name, at.below, record, version, mzxid))
        self._touched.nodes.add(at.name)

    def drop(self, at: WorldPath) -> None:
        """Show nothing there."""
        self._unhide(at)
        if at.kind in (Node, NodeRole, Claim, Fence):
            self._drop_of_node(at)
            return
        world, touched = self.world, self._touched
        if at.kind is Role and at.name in world.roles:
            world.drop_role(at.name)
            touched.roles = True
        elif at.kind is Deployment and at.name in world.deployments:
            world.drop_deployment(at.name)
            touched.deployments = True
        elif at.kind is Gate:
            world.put_gate(at.name, at.below, -1)
        elif at.kind is DeploymentRole and (at.name, at.below) in world.deployment_roles:
            world.drop_deployment_role(at.name, at.below)
            touched.deployments = True
        elif at.kind is Daemon and at.below in world.daemons.get(at.name, {}):
            world.drop_daemon(at.name, at.below)
            touched.daemons = True
        elif at.kind is RolloutPointer and at.name in world.rollouts:
            world.drop_rollouts(at.name)
            touched.rollouts = True
        elif at.kind is TaskRunPointer and at.name in world.task_runs:
            world.drop_task_runs(at.name)
            touched.task_runs = True
        elif at.kind is Structure:
            world.put_structure(None)
        elif at.kind is Cluster:
            world.put_cluster(None)

    def _drop_of_node(self, at: WorldPath) -> None:
        world, touched = self.world, self._touched
        view = world.nodes.get(at.name)
        if view is None:
            return
        if at.kind is NodeRole and at.below in view.noderoles:
            vertex = view.noderoles[at.below]
            touched.vertices.add(vertex)
            touched.nodes.update(child.node.name for child in vertex.below)
            world.drop_noderole(at.name, at.below)
        elif at.kind is Node:
            touched.vertices.update(view.noderoles.values())
            world.drop_node(at.name)
        elif at.kind is Claim and view.claim is not None:
            world.put_claim(at.name, None)
        elif at.kind is Fence and view.fence != -1:
            world.put_fence(at.name, -1)
        else:
            return
        touched.nodes.add(at.name)

    # -- what cannot be decoded --

    def _hide(self, at: WorldPath, znode: Znode, reason: str) -> None:
        self._unreadable.hide(at, znode, reason)
        self._touched.concerned(self.world, at)

    def _unhide(self, at: WorldPath) -> None:
        if self._unreadable.unhide(at):
            self._touched.concerned(self.world, at)

    def _gone(self, listed: Listing) -> Iterator[str]:
        """What was read once and is not there any more, leaves first."""
        world = self.world
        yield from self._unreadable.gone(listed)
        for fqdn, view in list(world.nodes.items()):
            for role in view.noderoles.keys() - set(listed.nodes.get(fqdn, ())):
                yield paths.noderole(role, fqdn)
        yield from map(paths.node, world.nodes.keys() - listed.nodes.keys())
        for deployment, role in list(world.deployment_roles):
            if role not in listed.deployments.get(deployment, ()):
                yield paths.deployment_role(deployment, role)
        for cluster in world.clusters.values():
            if cluster.gate >= 0 and cluster.role not in listed.gates.get(cluster.deployment, ()):
                yield paths.gate(cluster.deployment, cluster.role)
        yield from map(paths.deployment, world.deployments.keys() - listed.deployments.keys())
        yield from map(paths.role, world.roles.keys() - set(listed.roles))
        for kind, daemons in list(world.daemons.items()):
            for identity in daemons.keys() - set(listed.daemons.get(kind, ())):
                yield paths.daemon(kind, identity)
        yield from map(paths.rollouts, world.rollouts.keys() - set(listed.rollouts))
        yield from map(paths.task_runs, world.task_runs.keys() - set(listed.task_runs))


def _mzxid(znode: Znode | None) -> int:
    return 0 if znode is None else znode.mzxid


def _record(at: WorldPath, znode: Znode) -> Record | None:
    """What is there, None for a fence that says nothing: its version counts whatever it says. Raises Invalid."""
    wrong = misnamed(at)
    if wrong is not None:
        raise Invalid(f"{znode.path}: {wrong}")
    if at.kind is not Fence:
        return codec.decode(at.kind, znode)
    try:
        return codec.decode(Fence, znode)
    except Invalid:
        return None


def load_world(session: Session) -> World:
    """Everything below ``/ocb`` as it is now, as far as it can be decoded; raises Unavailable or Denied."""
    tree = Tree(World())
    tree.read(session, session.get(paths.STRUCTURE))
    return tree.world
