"""A World that follows ZooKeeper by one recursive watch on ``/ocb``; paths with an event are *dirty* and read again.

An event names a path to read, and no more. ``refresh`` reads the dirty paths, in batches, and shows the records with
another mzxid than the world has. ``sweep`` reads everything, for watches are hints: the owner of the cache calls it
every half minute, and ``refresh`` calls it after a reconnect. ``wrote`` shows own writes without a read: ``expect``
announced them, so their events cost none.

The gate of a cluster must never be shown newer than the cluster's members, for a claim checks the gate instead of them.
So a changed gate is shown only after all its members, and the one that raised it, have been read again. A gate that we
raised ourselves is shown with our own writes, unless another writer raised it before. If the connection breaks during
such a read, everything is read anew first.

All methods must be called on one thread. The watch runs on another one: it appends to a deque and wakes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Check, Delete, Gate, Json, Record, Structure
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session, ZnodeStat
from nodepool_ocb.store.world.arrivals import Arrivals
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb.store.world.load import WorldTree
from nodepool_ocb.store.world.paths import LEVELS, WorldPath, is_noderole, parse


class Cache:
    """Keeps ``world`` as ZooKeeper is; ``wake`` is called, on the connection's thread, when ``refresh`` has something
    to do. If it reads ``ahead`` (arrivals), ``refresh`` must also be called after ``rest_seconds``, unless they are 0.
    """

    def __init__(self, session: Session, world: World, wake: Callable[[], None], ahead: bool = False) -> None:
        self._session = session
        self._tree = WorldTree(world)
        self._wake = wake
        self._arrivals = Arrivals(session, wake, ahead)
        self._dirty: set[str] = set()
        self._expected = self._arrivals.expected
        self._seen: dict[str, int] = {}  # how many events came for a path of ours: more than ours are others'
        self._swept = -1  # the zxid that the newest whole sweep began with
        self._connection = 0  # the session's count of connections then: with a new one, events may have been lost

    @property
    def world(self) -> World:
        return self._tree.world

    @property
    def quarantined(self) -> dict[str, str]:
        """The reason for each path that cannot be decoded. Attributes are included after a read of them has failed."""
        return self._tree.world.unreadable | self._tree.world.spoiled

    def load(self) -> ChangeSet:
        """Watch, and read everything; again after a lost session, into the same world. Raises Unavailable or Denied."""
        levels = None if self.world.spoiled else LEVELS
        self._session.watch(paths.ROOT, self._event, self._arrivals.over, levels)
        self._swept = -1
        return self.sweep()

    @property
    def rest_seconds(self) -> float:
        """Until ``refresh`` must be called again; 0 if a wake-up comes before it must. Ask before each wait."""
        return self._arrivals.rest()

    def refresh(self) -> ChangeSet:
        """Read the dirty paths, and give all changes since the last ``refresh`` or ``sweep``, own writes included.

        Raises Unavailable or Denied; paths that were not read stay dirty.
        """
        if self._connection != self._session.connections:
            return self.sweep()
        self._absorb()
        if self._dirty or self._arrivals.due:
            self._arrivals.begin()
            read = 0
            try:
                read = self._refresh()
            finally:
                self._arrivals.end(read)
        return self._tree.changes()

    def _refresh(self) -> int:
        """Read the dirty paths, and show them; gives their number."""
        self._absorb()
        first = self._dirty & {paths.STRUCTURE}
        self._dirty -= first
        dirty: list[str] = []
        try:
            structure = self._session.get_many(sorted(first))
            self._absorb()  # the changes before that version are dirty by now, and are shown before it
            dirty = sorted(self._dirty - {paths.STRUCTURE})
            self._dirty.difference_update(dirty)
            gates = self._read(dirty)
            again = self._behind(gates)
            dirty += again
            later = self._read(again)
            if self._connection != self._session.connections:
                # events were lost meanwhile: the last records read may be newer than all that is shown
                self._sweep()
                return 0
            for path, znode in gates.items():
                self._tree.put(path, znode)
            if later:
                self._dirty.update(later)  # shown by the next refresh, after their members
                self._wake()
            for znode in structure:
                self._tree.put(paths.STRUCTURE, znode)
        except BaseException:
            self._dirty.update(dirty, first)
            raise
        return len(dirty)

    def _read(self, dirty: Sequence[str]) -> dict[str, Znode | None]:
        """Show the records that these paths have now; gives the gates that changed, which are not shown yet."""
        gates: dict[str, Znode | None] = {}
        for number, (path, znode) in enumerate(zip(dirty, self._session.stream(dirty), strict=True)):
            if not number:
                self._show_ahead()  # was asked for before
            at = None if is_noderole(path) else parse(path)
            if at is None or at.kind is not Gate:
                self._tree.put(path, znode)
            elif znode is None or znode.mzxid != self._tree.mzxid(at):
                gates[path] = znode
        return gates

    def _behind(self, gates: dict[str, Znode | None]) -> list[str]:
        """The paths to read before these gates are shown. They are the paths that became dirty before the gates were
        read, the gates' members, and the noderoles that the gates name.
        """
        if not gates:
            return []
        self._absorb()
        behind = self._dirty - {paths.STRUCTURE}
        self._dirty -= behind
        for path, znode in gates.items():
            at = parse(path)
            assert at is not None, "a world shows gates"
            names = [member.name for member in self.world.cluster_view(at.below, at.name).members]
            with suppress(Invalid, ValueError):
                named = codec.decode(Gate, znode).by if znode is not None else None
                names += [named] if named else []
            behind.update(paths.noderole(*paths.split_noderole(name)) for name in names)
        return sorted(behind)

    def sweep(self) -> ChangeSet:
        """Read everything, unless nothing at all was written since the last sweep began; otherwise as ``refresh``."""
        self._arrivals.begin()
        try:
            self._sweep()
        finally:
            self._arrivals.end(0)
        return self._tree.changes()

    def _sweep(self) -> None:
        self._absorb()
        dirty, self._dirty = self._dirty, set()
        connection = self._session.connections
        try:
            _, structure = self._session.get_many([paths.ROOT, paths.STRUCTURE])
            zxid = self._session.last_zxid  # the reads that follow see all writes up to here
            self._show_ahead()  # was asked for before
            if zxid != self._swept:
                hidden = self._tree.read(self._session, structure)
                self._swept = zxid
                if hidden:
                    self._dirty.update(hidden)  # shown by the next refresh, after their members
                    self._wake()
            self._tree.look_at_spoiled(self._session)
            self._connection = connection
        except BaseException:
            self._dirty.update(dirty)
            raise

    def spoiled(self, path: str, reason: str) -> None:
        """Attributes that were read, and cannot be decoded: they are followed from now on until they can be."""
        self._tree.spoil(path, reason)
        self._session.watch_all_levels(paths.ROOT)
        self._dirty.add(path)  # they may be well again
        self._wake()

    # -- own writes --

    def expect(self, changes: Sequence[Change]) -> None:
        """These are about to be sent; ``wrote`` or ``refused`` must follow."""
        self._arrivals.expect(
            [change.path for change in changes if type(change) is not Check and parse(change.path) is not None]
        )

    def committed(self, changes: Sequence[Change], stats: Sequence[ZnodeStat | None]) -> None:
        """``wrote`` for all of a transaction that was applied, with the stats that commit gave."""
        self._absorb()
        for change, stat in zip(changes, stats, strict=True):
            if not isinstance(change, Check) and (at := parse(change.path)) is not None:
                self._wrote(at, change.path, None if isinstance(change, Delete) else change.data, stat)

    def wrote(self, path: str, record: Record | Json, stat: ZnodeStat | None) -> None:
        """Show the record that was written at ``path``; ``stat`` None means that it was deleted. Other paths are
        ignored.
        """
        at = parse(path)
        if at is not None:
            self._absorb()
            self._wrote(at, path, record, stat)

    def _wrote(self, at: WorldPath, path: str, record: Record | Json, stat: ZnodeStat | None) -> None:
        """As ``wrote``; the events are absorbed."""
        self._settle(path, own=1)
        if stat is None:
            self._tree.drop(at)
        elif at.kind is Gate and stat.version != self.world.cluster_view(at.below, at.name).gate + 1:
            self._dirty.add(path)  # others raised it, too: their writes must be read before it is shown
            self._wake()
        else:
            self._tree.show_written(at, record, stat)

    def refused(self, changes: Sequence[Change]) -> None:
        """The expected changes did not happen, or it is not known whether they did."""
        self._absorb()
        for change in changes:
            if not isinstance(change, Check) and parse(change.path) is not None:
                self._settle(change.path, own=0)

    def _settle(self, path: str, own: int) -> None:
        left = self._expected.pop(path, 0) - 1
        others = max(self._seen.pop(path, 0) - own, 0)
        if left > 0:
            self._expected[path] = left
            self._seen[path] = others
        elif left == 0 and others:
            self._dirty.add(path)
            self._wake()

    # -- the watch --

    def _event(self, _kind: str, path: str) -> None:
        if path in self._expected:
            self._arrivals.add(path, alone=True)
            return
        if is_noderole(path):  # most are
            self._arrivals.add(path, alone=False)
            return
        at = parse(path)
        if at is not None:
            self._arrivals.add(path, alone=at.kind is Gate or at.kind is Structure)
        elif path in self._tree.world.spoiled:
            self._arrivals.add(path, alone=True)

    def _absorb(self) -> None:
        self._show_ahead()
        expected, seen = self._expected, self._seen
        for path in self._arrivals.take():
            if path in expected:
                seen[path] = seen.get(path, 0) + 1
            else:
                self._dirty.add(path)

    def _show_ahead(self) -> None:
        """Show the records that were read ahead. All writes of ours that were answered before are shown already."""
        for path, znode in self._arrivals.answers():
            self._tree.put(path, znode)
