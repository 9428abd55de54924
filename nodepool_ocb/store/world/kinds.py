"""How a World shows the records of each kind: one object for each kind, made from the table of record kinds.

Most kinds are kept as they were read. Nodes, noderoles, claims, fences and gates make up the graph, and have a class each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import BootToken, Installation
from nodepool_ocb.model.kinds import RecordKind, Wake
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.model.records import Claim, Fence, Gate, Node, NodeRole, Record
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb.store.world.paths import ROWS, Kind, Listing, WorldPath, path_of


class ReadRecord(msgspec.Struct, frozen=True):
    """A record as it was read, or as this process wrote it; None for a fence without a readable record."""

    record: Record | None
    version: int
    mzxid: int
    owner: int = 0  # the session of an ephemeral record


class WorldKind:
    """A kind of record that a World keeps as it was read."""

    def __init__(self, row: RecordKind) -> None:
        assert row.record is not None
        self.kind: Kind = row.record
        self._wakes = row.wakes

    def decode(self, znode: Znode) -> Record | None:
        """Raises Invalid."""
        return codec.decode(self.kind, znode)

    def mzxid(self, world: World, at: WorldPath) -> int:
        """The mzxid of the shown record; 0 if none is shown, and for kinds without one."""
        shown = self._shown(world, at)
        return shown.mzxid if shown is not None else 0

    def version(self, world: World, at: WorldPath) -> int:
        """The version of the shown record; -1 if none is shown."""
        shown = self._shown(world, at)
        return shown.version if shown is not None else -1

    def show(self, world: World, changes: ChangeSet, at: WorldPath, read: ReadRecord) -> None:
        """Show a record, and note the change."""
        before = self._shown(world, at)
        assert isinstance(read.record, Record)
        world.put(Stored(read.record, read.version, read.mzxid), *at.names)
        if self._wakes is Wake.WRITTEN or before is None or before.record != read.record:
            self.concern(world, changes, at)

    def drop(self, world: World, changes: ChangeSet, at: WorldPath) -> None:
        """Show a record no more, and note the change if it was shown."""
        if world.drop(self.kind, *at.names):
            self.concern(world, changes, at)

    def concern(self, world: World, changes: ChangeSet, at: WorldPath) -> None:  # noqa: ARG002
        """Note all that a change of the record concerns."""
        if self._wakes is not Wake.NEVER:
            changes.kinds.add(self.kind)

    def gone(self, world: World, listed: Listing) -> Iterator[str]:
        """The paths of the records that are shown and were not listed."""
        shown = {key if isinstance(key, tuple) else (key,) for key in world.of(self.kind)}
        return (path_of(self.kind, *names) for names in shown.difference(listed.names(self.kind)))

    def _shown(self, world: World, at: WorldPath) -> Stored[Any] | None:
        names = at.names
        return world.of(self.kind).get(names[0] if len(names) == 1 else names)


class _OfNode(WorldKind):
    """A record that is part of the view of a node."""

    def mzxid(self, world: World, at: WorldPath) -> int:  # noqa: ARG002
        return 0

    def concern(self, world: World, changes: ChangeSet, at: WorldPath) -> None:  # noqa: ARG002
        changes.nodes.add(at.name)

    def gone(self, world: World, listed: Listing) -> Iterator[str]:  # noqa: ARG002
        return iter(())  # each is read wherever its node is, and goes with the node


class _Nodes(_OfNode):
    def mzxid(self, world: World, at: WorldPath) -> int:
        return world.nodes[at.name].mzxid if at.name in world.nodes else 0

    def version(self, world: World, at: WorldPath) -> int:
        return world.nodes[at.name].version if at.name in world.nodes else -1

    def show(self, world: World, changes: ChangeSet, at: WorldPath, read: ReadRecord) -> None:
        assert isinstance(read.record, Node)
        world.put_node(at.name, read.record, read.version, read.mzxid)
        changes.nodes.add(at.name)

    def drop(self, world: World, changes: ChangeSet, at: WorldPath) -> None:
        view = world.nodes.get(at.name)
        if view is not None:
            changes.vertices.update(view.noderoles.values())
            world.drop_node(at.name)
            changes.nodes.add(at.name)

    def gone(self, world: World, listed: Listing) -> Iterator[str]:
        return map(paths.node, world.nodes.keys() - listed.folders[paths.NODES].keys())


class _NodeRoles(_OfNode):
    def mzxid(self, world: World, at: WorldPath) -> int:
        node = world.nodes.get(at.name)
        vertex = node.noderoles.get(at.below) if node else None
        return vertex.mzxid if vertex else 0

    def version(self, world: World, at: WorldPath) -> int:
        node = world.nodes.get(at.name)
        vertex = node.noderoles.get(at.below) if node else None
        return vertex.version if vertex else -1

    def show(self, world: World, changes: ChangeSet, at: WorldPath, read: ReadRecord) -> None:
        assert isinstance(read.record, NodeRole)
        changes.vertices.add(world.put_noderole(at.name, at.below, read.record, read.version, read.mzxid))
        changes.nodes.add(at.name)

    def drop(self, world: World, changes: ChangeSet, at: WorldPath) -> None:
        view = world.nodes.get(at.name)
        vertex = view.noderoles.get(at.below) if view is not None else None
        if vertex is not None:
            changes.vertices.add(vertex)
            changes.nodes.update(child.node.name for child in vertex.below)
            world.drop_noderole(at.name, at.below)
            changes.nodes.add(at.name)

    def concern(self, world: World, changes: ChangeSet, at: WorldPath) -> None:
        name = paths.noderole_name(at.below, at.name)
        vertex = world.vertex(name)
        children = world.below(name)
        changes.vertices.update(children if vertex is None else (vertex, *children))
        changes.nodes.update(child.node.name for child in children)
        changes.nodes.add(at.name)

    def gone(self, world: World, listed: Listing) -> Iterator[str]:
        for fqdn, view in list(world.nodes.items()):
            for role in view.noderoles.keys() - listed.folders.get(paths.noderoles(fqdn), {}).keys():
                yield paths.noderole(role, fqdn)


class _Claims(_OfNode):
    def version(self, world: World, at: WorldPath) -> int:
        return world.nodes[at.name].claim_version if at.name in world.nodes else -1

    def show(self, world: World, changes: ChangeSet, at: WorldPath, read: ReadRecord) -> None:
        assert isinstance(read.record, Claim)
        view = world.node(at.name)
        if (view.claim, view.claim_owner, view.claim_version) != (read.record, read.owner, read.version):
            world.put_claim(at.name, read.record, read.owner, read.version)
            changes.nodes.add(at.name)

    def drop(self, world: World, changes: ChangeSet, at: WorldPath) -> None:
        view = world.nodes.get(at.name)
        if view is not None and view.claim is not None:
            world.put_claim(at.name, None)
            changes.nodes.add(at.name)


class _Fences(_OfNode):
    def decode(self, znode: Znode) -> Record | None:
        """None for a fence that cannot be read: its version counts in any case."""
        try:
            return super().decode(znode)
        except Invalid:
            return None

    def version(self, world: World, at: WorldPath) -> int:
        return world.nodes[at.name].fence if at.name in world.nodes else -1

    def show(self, world: World, changes: ChangeSet, at: WorldPath, read: ReadRecord) -> None:
        if world.node(at.name).fence != read.version:
            world.put_fence(at.name, read.version, read.record if isinstance(read.record, Fence) else None)
            changes.nodes.add(at.name)

    def drop(self, world: World, changes: ChangeSet, at: WorldPath) -> None:
        view = world.nodes.get(at.name)
        if view is not None and view.fence != -1:
            world.put_fence(at.name, -1)
            changes.nodes.add(at.name)

    def concern(self, world: World, changes: ChangeSet, at: WorldPath) -> None:
        pass  # its data decides nothing


class _Gates(WorldKind):
    def mzxid(self, world: World, at: WorldPath) -> int:
        return world.cluster_view(at.below, at.name).mzxid

    def version(self, world: World, at: WorldPath) -> int:
        return world.cluster_view(at.below, at.name).gate

    def show(self, world: World, changes: ChangeSet, at: WorldPath, read: ReadRecord) -> None:  # noqa: ARG002
        world.put_gate(at.name, at.below, read.version, read.mzxid)

    def drop(self, world: World, changes: ChangeSet, at: WorldPath) -> None:  # noqa: ARG002
        world.put_gate(at.name, at.below, -1)

    def gone(self, world: World, listed: Listing) -> Iterator[str]:
        for cluster in list(world.clusters.values()):
            if cluster.gate >= 0 and cluster.role not in listed.folders.get(paths.clusters(cluster.deployment), ()):
                yield paths.gate(cluster.deployment, cluster.role)


class _BesideNode(WorldKind):
    """A record of a node that is kept as it was read; its change concerns the node."""

    def concern(self, world: World, changes: ChangeSet, at: WorldPath) -> None:  # noqa: ARG002
        changes.nodes.add(at.name)


_OF_GRAPH: Final[Mapping[Kind, type[WorldKind]]] = {
    Node: _Nodes, NodeRole: _NodeRoles, Claim: _Claims, Fence: _Fences, Gate: _Gates,
    Installation: _BesideNode, BootToken: _BesideNode, MachinePower: _BesideNode,
}  # fmt: skip
WORLD_KINDS: Final[Mapping[Kind, WorldKind]] = {kind: _OF_GRAPH.get(kind, WorldKind)(row) for kind, row in ROWS.items()}
