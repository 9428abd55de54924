"""A World filled from ZooKeeper, in requests of hundreds: all at once, or path by path.

Gates are read before the noderoles, and shown after them. They are not shown if the structure changed between the
listing of the noderoles and that reading. So a gate that is shown is never newer than its members. A caller that reads
path by path must keep this order itself (store.world.cache).

A record that cannot be decoded is named in ``world.unreadable``, with the reason; the last good record, if any, stays.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec.structs

from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.ranges import is_name, is_node
from nodepool_ocb.model.records import Fence, Gate, Json, NodeRole, Record, Structure
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session, ZnodeStat
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb.store.world.kinds import WORLD_KINDS, ReadRecord
from nodepool_ocb.store.world.paths import Listing, WorldPath, listing, misnamed, noderole_of, parse, path_of
from nodepool_ocb.store.world.unreadable import UnreadableRecords

#: The kinds that are read together. Noderoles are read in a loop of their own, gates and the structure in their order.
_TOGETHER: Final = tuple(kind for kind in WORLD_KINDS if kind not in (NodeRole, Gate, Structure))


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


class WorldTree:
    """A World, and the data that keep it equal to ZooKeeper."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._unreadable = UnreadableRecords(world)
        self._changes = ChangeSet()

    def changes(self) -> ChangeSet:
        """The changes since the last call."""
        changes, self._changes = self._changes, ChangeSet()
        changes.turned, self.world.edges.turned = self.world.edges.turned, set()
        changes.nodes.update(vertex.node.name for vertex in changes.turned)
        return changes

    def read(self, session: Session, structure: Znode | None) -> list[str]:
        """Read everything, and drop the records that are gone; raises Unavailable or Denied with part of it done.

        ``structure`` is that znode, read before. It is shown last, so the world then has all records of its version.
        Gives the gates that are not shown, for a member may have joined after the noderoles were listed: read them
        again.
        """
        listed = listing(session)
        places = [WorldPath(kind, *each) for kind in _TOGETHER for each in listed.names(kind)]
        names = [path_of(at.kind, *at.names) for at in places]
        gates = [path_of(Gate, *each) for each in listed.names(Gate)]
        with undisturbed():
            of_gates = list(session.stream([*gates, paths.STRUCTURE])) if gates else []
            for at, znode in zip(places, session.stream(names), strict=True):
                self._put(at, znode)
            self._read_noderoles(session, listed)
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
        """Take note of attributes that were read at a path where they were unreadable; ignored at other paths."""
        self._changes.attributes |= self._unreadable.mended(path, znode)

    def spoil(self, path: str, reason: str) -> None:
        """Record that attributes cannot be read."""
        self.world.spoiled[path] = reason

    def _read_noderoles(self, session: Session, listed: Listing) -> None:
        """As ``put`` for each; most of a sweep ends at the comparison, most of a first load in the last lines."""
        nodes = listed.bound
        self._put_noderoles(nodes, session.stream_folders(listed.noderoles))

    def _put_noderoles(self, nodes: Mapping[str, Collection[str]], znodes: Iterator[Znode | None]) -> None:
        """``nodes``: the roles on each; ``znodes``: those of all, in the same order."""
        changes = self._changes
        moments, zxids = dict[float, float](), dict[int, int]()  # those that a transaction wrote share both
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
                msgspec.structs.force_setattr(record, "since", moments.setdefault(record.since, record.since))
                mzxid = zxids.setdefault(znode.mzxid, znode.mzxid)
                vertex = self.world.put_noderole(fqdn, role, record, znode.version, mzxid)
                changes.vertices.add(vertex)
                changes.nodes.add(fqdn)

    def put(self, path: str, znode: Znode | None) -> None:
        """Show the record that was read at ``path``. Ignored if it is shown already; paths without a record of the
        world go to ``put_attributes``.
        """
        if znode is not None and self._show_changed(path, znode):
            return
        at = parse(path)
        if at is None:
            self.put_attributes(path, znode)
        else:
            self._put(at, znode)

    def _show_changed(self, path: str, znode: Znode) -> bool:
        """Show the newer record of a noderole; False for all but a readable one that is shown already.

        Most changes of a large cluster are such, and most of them are made by others. ``_put`` shows the same.
        """
        place = noderole_of(path)
        vertex = self._shown(*place) if place is not None else None
        if vertex is None:
            return False
        if vertex.mzxid == znode.mzxid:
            return True
        try:
            record = codec.decode(NodeRole, znode)
        except Invalid:
            return False
        self._change(vertex, record, znode.version, znode.mzxid)
        return True

    def _shown(self, fqdn: str, role: str) -> Vertex | None:
        """A noderole that is shown, while all records can be read."""
        view = self.world.nodes.get(fqdn)
        return None if view is None or self._unreadable else view.noderoles.get(role)

    def _change(self, vertex: Vertex, record: NodeRole, version: int, mzxid: int) -> None:
        self.world.change_noderole(vertex, record, version, mzxid)
        self._changes.vertices.add(vertex)
        self._changes.nodes.add(vertex.node.name)

    def _put(self, at: WorldPath, znode: Znode | None) -> None:
        if znode is None:
            self.drop(at)
        elif self.mzxid(at) != znode.mzxid:
            try:
                record = _record(at, znode)
            except Invalid as wrong:
                self._hide(at, znode, str(wrong))
            else:
                self.show(at, ReadRecord(record, znode.version, znode.mzxid, znode.ephemeral_owner))

    def mzxid(self, at: WorldPath) -> int:
        """The mzxid of the last read of this path; 0 if there is no record, and for records without an mzxid in the
        world.
        """
        if at in self._unreadable:
            return self._unreadable.mzxid(at)
        return WORLD_KINDS[at.kind].mzxid(self.world, at)

    def show_written(self, at: WorldPath, record: Record | Json, stat: ZnodeStat) -> None:
        """Show a record that this process wrote, unless a newer one is shown."""
        vertex = self._shown(*at.names) if type(record) is NodeRole is at.kind else None
        if vertex is not None and isinstance(record, NodeRole):
            if stat.mzxid > vertex.mzxid:
                self._change(vertex, record, stat.version, stat.mzxid)
        elif stat.mzxid > self.mzxid(at):
            self.show(at, ReadRecord(record, stat.version, stat.mzxid, stat.ephemeral_owner))

    def show(self, at: WorldPath, read: ReadRecord) -> None:
        """Show a record of the kind that belongs there; data of another kind is not shown."""
        self._unhide(at)
        if at.kind is Fence or isinstance(read.record, at.kind):
            WORLD_KINDS[at.kind].show(self.world, self._changes, at, read)

    def drop(self, at: WorldPath) -> None:
        """Show nothing there."""
        self._unhide(at)
        WORLD_KINDS[at.kind].drop(self.world, self._changes, at)

    # -- records that cannot be decoded --

    def _hide(self, at: WorldPath, znode: Znode, reason: str) -> None:
        self._unreadable.hide(at, znode, reason)
        WORLD_KINDS[at.kind].concern(self.world, self._changes, at)

    def _unhide(self, at: WorldPath) -> None:
        if self._unreadable.unhide(at):
            WORLD_KINDS[at.kind].concern(self.world, self._changes, at)

    def _gone(self, listed: Listing) -> Iterator[str]:
        """The paths that were read once and are gone now, leaves first."""
        yield from self._unreadable.gone(listed)
        for kind in reversed(list(WORLD_KINDS)):
            if kind is not Structure:  # shown after this
                yield from WORLD_KINDS[kind].gone(self.world, listed)


def _mzxid(znode: Znode | None) -> int:
    return 0 if znode is None else znode.mzxid


def _record(at: WorldPath, znode: Znode) -> Record | None:
    """The record in this znode, None for a fence without data. Raises Invalid."""
    wrong = misnamed(at)
    if wrong is not None:
        raise Invalid(f"{znode.path}: {wrong}")
    return WORLD_KINDS[at.kind].decode(znode)


def load_world(session: Session) -> World:
    """Everything below ``/ocb`` as it is now, as far as it can be decoded; raises Unavailable or Denied."""
    tree = WorldTree(World())
    tree.read(session, session.get(paths.STRUCTURE))
    return tree.world
