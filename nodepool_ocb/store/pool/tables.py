"""The requests and the nodes of pools, as they were read, each with the holder of its lock.

A record that cannot be decoded, and a znode with a name that is no id, is in no view. It stands in ``quarantined`` with the
reason, and it is left alone. A znode without data is no record, either: kazoo's lock of a deleted node makes such znodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.pool import NodeRequest, PoolNode
from nodepool_ocb.model.skew import believed
from nodepool_ocb.pool.views import PoolNodeView, RequestView
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.reading import SessionReads
from nodepool_ocb.store.kinds import misnumbered
from nodepool_ocb.store.locks import Lock, first_contenders, owner
from nodepool_ocb.store.pool.salvage import salvaged

V = TypeVar("V", RequestView, PoolNodeView)

_TEXT: Final = 200  # characters of a holder's own text


class PoolTable(ABC, Generic[V]):
    """The records of one folder. Its mappings change with each call of ``read``, ``keep`` and ``own``."""

    def __init__(self, folder: str) -> None:
        self.folder: Final = folder
        self.views: dict[str, V] = {}  # by id
        self.gone = 0  # views that were dropped so far
        self.empty: dict[str, float] = {}  # name of a znode without data → the time of its creation
        self.quarantined: dict[str, str] = {}  # path → why it cannot be read
        self._mzxids: dict[str, int] = {}  # of the shown records
        self._contenders: dict[str, str] = {}  # id → the path of the contender that holds the lock
        self._ours: set[str] = set()  # the ids of the views that are ours

    @abstractmethod
    def lock(self, id: str) -> str:
        """The path of the lock of a record."""

    @abstractmethod
    def _decoded(self, id: str, znode: Znode) -> V:
        """The view of a record, without its lock; raises Invalid."""

    @abstractmethod
    def _locked(self, view: V, holder: Znode | None) -> V:
        """The view with this holder of the lock; it is not ours."""

    def read(self, session: SessionReads, names: Iterable[str], locks: bool = True) -> None:
        """Read the znodes of these names, and the holders of their locks. Raises Unavailable or Denied.

        The locks are read after the records: a record that says "pending" and then has no lock has no launcher. Without
        ``locks`` each record counts as free.
        """
        wanted = sorted(set(names))
        found = session.get_many([f"{self.folder}/{name}" for name in wanted])
        holders = first_contenders(session, [self.lock(name) for name in wanted]) if locks else [None] * len(wanted)
        for name, znode, holder in zip(wanted, found, holders, strict=True):
            self._drop_notes(name)
            if znode is None:
                self._drop(name)
            elif not znode.data:
                self._drop(name)
                self.empty[name] = znode.ctime
            else:
                self._show(name, znode, holder)

    def keep(self, names: Iterable[str]) -> None:
        """Drop all but these."""
        for name in self.known() - set(names):
            self._drop_notes(name)
            self._drop(name)

    def own(self, held: Mapping[str, Lock]) -> bool:
        """Set ``ours`` by the locks that this process holds, by path; whether any view changed."""
        ours = {name for name, contender in self._contenders.items() if self._held(held, name) == contender}
        changed = ours ^ self._ours
        for name in changed & self.views.keys():
            self.views[name] = replace(self.views[name], ours=name in ours)
        self._ours = ours
        return bool(changed)

    def _held(self, held: Mapping[str, Lock], name: str) -> str | None:
        lock = held.get(self.lock(name))
        return None if lock is None else lock.contender

    def _show(self, name: str, znode: Znode, holder: Znode | None) -> None:
        view = self.views.get(name)
        if view is None or self._mzxids.get(name) != znode.mzxid:
            try:
                misnamed = misnumbered(znode.path)
                if misnamed is not None:
                    raise Invalid(f"{znode.path}: {misnamed}")
                view = self._decoded(name, znode)
            except Invalid as wrong:
                self._spoiled(name, znode, holder)
                self._drop(name)
                self.quarantined[znode.path] = str(wrong)
                return
        self._mzxids[name] = znode.mzxid
        self.views[name] = self._locked(view, holder)
        self._ours.discard(name)
        if holder is None:
            self._contenders.pop(name, None)
        else:
            self._contenders[name] = holder.path

    def _spoiled(self, name: str, znode: Znode, holder: Znode | None) -> None:
        """A record cannot be read; ``views`` has the one that was read before it."""

    def known(self) -> set[str]:
        """The names of all znodes there, also of those that are no records."""
        return {*self.views, *self.empty, *(path.rpartition("/")[2] for path in self.quarantined)}

    def _drop_notes(self, name: str) -> None:
        self.empty.pop(name, None)
        self.quarantined.pop(f"{self.folder}/{name}", None)

    def _drop(self, name: str) -> None:
        if self.views.pop(name, None) is not None:
            self.gone += 1
        self._mzxids.pop(name, None)
        self._contenders.pop(name, None)
        self._ours.discard(name)


class RequestTable(PoolTable[RequestView]):
    """``requests``; the locks are in a folder of their own."""

    def __init__(self) -> None:
        super().__init__(paths.REQUESTS)

    def lock(self, id: str) -> str:
        """The path of the lock of a request."""
        return paths.request_lock(id)

    def _decoded(self, id: str, znode: Znode) -> RequestView:
        record, size = codec.decode(NodeRequest, znode), len(znode.data)
        if size > limits.FAILED_BYTES:
            raise Invalid(
                f"{znode.path}: its {size} bytes leave no room for an answer to the request;"
                f" delete it: nodepool-ocb record delete {znode.path}"
            )
        if believed(record.state_time, znode.mtime) != record.state_time:
            record = replace(record, state_time=znode.mtime)  # its writer's clock was wrong, and this cannot be later
        return RequestView(id=id, record=record, version=znode.version, created=znode.ctime, bytes=size)

    def _locked(self, view: RequestView, holder: Znode | None) -> RequestView:
        name = None if holder is None else owner_text(holder)
        return view if view.locked_by == name and not view.ours else replace(view, locked_by=name, ours=False)


class PoolNodeTable(PoolTable[PoolNodeView]):
    """``nodes``; a lock is below its node. ``unreadable`` has the places of nodes that are in no view."""

    def __init__(self) -> None:
        super().__init__(paths.POOL_NODES)
        self.unreadable: dict[str, PoolNodeView] = {}

    def read(self, session: SessionReads, names: Iterable[str], locks: bool = True) -> None:
        """As of every table."""
        wanted = set(names)
        super().read(session, wanted, locks)
        self._forget_readable(wanted)

    def keep(self, names: Iterable[str]) -> None:
        """Drop all but these."""
        super().keep(names)
        self._forget_readable(self.unreadable)

    def _forget_readable(self, names: Iterable[str]) -> None:
        for name in [each for each in names if f"{self.folder}/{each}" not in self.quarantined]:
            self.unreadable.pop(name, None)

    def _spoiled(self, name: str, znode: Znode, holder: Znode | None) -> None:
        former = self.views.get(name) or self.unreadable.get(name)
        self.unreadable[name] = replace(salvaged(name, znode, former), locked=holder is not None)

    def lock(self, id: str) -> str:
        """The path of the lock of a node."""
        return paths.pool_node_lock(id)

    def _decoded(self, id: str, znode: Znode) -> PoolNodeView:
        record = codec.decode(PoolNode, znode)
        if believed(record.state_time, znode.mtime) != record.state_time:
            record = replace(record, state_time=znode.mtime)
        return PoolNodeView(id=id, record=record, version=znode.version, created=znode.ctime)

    def _locked(self, view: PoolNodeView, holder: Znode | None) -> PoolNodeView:
        locked = holder is not None
        return view if view.locked is locked and not view.ours else replace(view, locked=locked, ours=False)


def owner_text(contender: Znode) -> str:
    """The holder of a lock, for people: the id of the daemon, or the text that another software wrote."""
    holder = owner(contender)
    return (holder.purpose or "another client" if holder.daemon == "?" else holder.daemon)[:_TEXT]
