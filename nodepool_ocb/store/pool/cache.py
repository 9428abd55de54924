"""All that the rules of a pool decide from, kept up to date by watches: requests, nodes, locks, pools of launchers, images.

An event names a record to read, and no more. Events of one record count once, so ten thousand requests that change all the time
need no more memory than ten thousand requests. Nothing is read while nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolComponent
from nodepool_ocb.model.records import Daemon, QuotaReport
from nodepool_ocb.pool.launches.ready_images import ready_images
from nodepool_ocb.pool.views import PoolMember, PoolView, ProviderQuota, ReadyImage
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.images import ImageCache
from nodepool_ocb.store.locks import HeldLocks
from nodepool_ocb.store.pool.tables import PoolNodeTable, RequestTable

POOLS: Final = paths.components("pool")
LAUNCHERS: Final = paths.daemons("launcher")

ROUNDS: Final = 3  # of reading, while nodes go

_MEMBERS: Final = ""  # the name for all members: they are few, and are read together


class _DirtyRecord(NamedTuple):
    folder: str
    name: str


class PoolCache:
    """``wake`` is called, on the connection's thread, when ``refresh`` has something to do.

    Everything but the watches is called on one thread. ``strays`` are the ids of requests that are gone, and whose locks remain.
    """

    def __init__(self, session: Session, held: HeldLocks, wake: Callable[[], None]) -> None:
        self.requests = RequestTable()
        self.nodes = PoolNodeTable()
        self.images = ImageCache(session, wake)
        self.strays: frozenset[str] = frozenset()
        self.quotas: Mapping[str, ProviderQuota] = {}  # by provider, as launchers tell them in their registrations
        self._session, self._held, self._wake = session, held, wake
        self._members: tuple[PoolMember, ...] = ()
        self._odd_members: dict[str, str] = {}
        self._ready_images: Mapping[tuple[str, str], ReadyImage] = {}
        self._locks: set[str] = set()  # the ids with a folder of locks
        self._events: dict[_DirtyRecord, None] = {}  # filled on the connection's thread
        self._dirty: set[_DirtyRecord] = set()
        self._connection = 0  # the session's count of connections when all was read
        self._swept = -1  # the zxid that the newest sweep began with
        self._shown = PoolView()
        self._owned = -1  # the count of changes of the held locks when ``ours`` was set

    @property
    def quarantined(self) -> dict[str, str]:
        """The paths of records that cannot be read, each with the reason."""
        return self.requests.quarantined | self.nodes.quarantined | self._odd_members | self.images.quarantined

    def load(self) -> None:
        """Watch, and read everything; again in every new session. Raises Unavailable or Denied."""
        session = self._session
        session.ensure(paths.REQUESTS, paths.REQUEST_LOCKS, paths.POOL_NODES, POOLS, LAUNCHERS)
        for folder in (paths.REQUESTS, paths.REQUEST_LOCKS, paths.POOL_NODES, POOLS, LAUNCHERS):
            session.watch(folder, self._watcher(folder))
        self.images.load()
        self._swept = -1
        self.sweep()

    def refresh(self) -> bool:
        """Read the records that something happened to; whether the view changed. Raises Unavailable or Denied."""
        if self._connection != self._session.connections:
            self.sweep()
            return True
        changed = self._read_images(self.images.refresh())
        return self._show(self._settle() or changed)

    def sweep(self) -> None:
        """Read everything, unless nothing at all was written since the last sweep began: watches are hints."""
        connection = self._session.connections
        self.images.sweep()
        self._read_images(True)
        self._absorb()
        self._session.get(POOLS)
        zxid = self._session.last_zxid  # the reads that follow see all writes up to here
        if zxid != self._swept or self._dirty:
            self._read({*self._listed(), *self._dirty})
            self._swept = zxid
        self._settle()
        self._connection = connection
        self._show(True)

    def view(
        self,
        quotas: Mapping[str, ProviderQuota] | None = None,
        faults: Mapping[str, str] | None = None,
        lives: Mapping[str, float] | None = None,
    ) -> PoolView:
        """The view of now; quotas and faults by provider, lives by label are the daemon's own. It does not change later."""
        if self._owned != self._held.changes:
            self._show(False)
        return msgspec.structs.replace(self._shown, quotas=quotas or {}, faults=faults or {}, lives=lives or {})

    # -- reading --

    def _listed(self) -> Iterator[_DirtyRecord]:
        """All that exists, and all that is shown."""
        requests, locks, nodes = (
            names or []
            for names in self._session.children_many([paths.REQUESTS, paths.REQUEST_LOCKS, paths.POOL_NODES])
        )
        self.requests.keep(requests)
        self.nodes.keep(nodes)
        self._locks = set(locks)
        yield from (_DirtyRecord(paths.REQUESTS, name) for name in requests)
        yield from (_DirtyRecord(paths.REQUEST_LOCKS, name) for name in self._locks.difference(requests))
        yield from (_DirtyRecord(paths.POOL_NODES, name) for name in nodes)
        yield _DirtyRecord(POOLS, _MEMBERS)

    def _settle(self) -> bool:
        """Read the changes; whether there was one.

        One transaction deletes a node and makes the next one of its slot. The event of the second comes before an answer that
        the first is gone. So after such an answer the new events are read, too: else the slot would seem to have no node.
        """
        changed = False
        for _ in range(ROUNDS):
            gone = self.nodes.gone
            self._absorb()
            changed |= self._read(self._dirty)
            if self.nodes.gone == gone:
                break
        return changed

    def _read(self, dirty: set[_DirtyRecord]) -> bool:
        if not dirty:
            return False
        self._dirty = set()
        try:
            locks = {name for folder, name in dirty if folder == paths.REQUEST_LOCKS}
            requests = {name for folder, name in dirty if folder == paths.REQUESTS}
            self.requests.read(self._session, locks | requests)
            self._read_lock_folders(locks)
            self.nodes.read(self._session, [name for folder, name in dirty if folder == paths.POOL_NODES])
            if any(folder in (POOLS, LAUNCHERS) for folder, _ in dirty):
                self._read_members()
        except BaseException:
            self._dirty |= dirty  # to be read when it can be
            raise
        self.strays = frozenset(self._locks - self.requests.known())
        return True

    def _read_lock_folders(self, ids: set[str]) -> None:
        names = sorted(ids)
        for name, listed in zip(
            names, self._session.children_many([paths.request_lock(name) for name in names]), strict=True
        ):
            (self._locks.discard if listed is None else self._locks.add)(name)

    def _read_members(self) -> None:
        session, found, odd = self._session, [], {}
        folders = (POOLS, LAUNCHERS)
        listed = session.children_many(folders)
        pools, launchers = (
            session.get_many([f"{folder}/{name}" for name in sorted(names or ())])
            for folder, names in zip(folders, listed, strict=True)
        )
        daemons = {znode.ephemeral_owner: _daemon(znode) for znode in launchers if znode is not None}
        for znode in pools:
            with suppress(Invalid):
                if znode is not None:
                    odd[znode.path] = ""
                    record = codec.decode(PoolComponent, znode)
                    del odd[znode.path]
                    owner = znode.ephemeral_owner
                    kept = daemon.keeps if (daemon := daemons.get(owner)) is not None else None
                    native = owner in daemons
                    found.append(PoolMember(path=znode.path, record=record, session=owner, native=native, kept=kept))
        self._members, self._odd_members = tuple(found), odd
        self.quotas = _newest(daemon for daemon in daemons.values() if daemon is not None)

    def _read_images(self, changed: bool) -> bool:
        if changed:
            self._ready_images = ready_images(self.images.images)
        return changed

    def _show(self, changed: bool) -> bool:
        """Make the view anew if any part of it changed."""
        if not changed and self._owned == self._held.changes:
            return False
        owned = self._held.changes
        held = self._held.all()
        ours = self.requests.own(held) | self.nodes.own(held)
        self._owned = owned
        if changed or ours:
            self._shown = PoolView(
                requests=dict(self.requests.views),
                nodes=dict(self.nodes.views),
                unreadable=dict(self.nodes.unreadable),
                members=self._members,
                images=self._ready_images,
            )
        return changed or ours

    # -- watching --

    def _watcher(self, folder: str) -> Callable[[str, str], None]:
        """The watcher of a folder: it notes the record, and wakes the turn."""
        start = len(folder) + 1

        def event(_kind: str, path: str) -> None:
            name = path[start:].partition("/")[0]
            if name:
                self._events[_DirtyRecord(folder, _MEMBERS if folder in (POOLS, LAUNCHERS) else name)] = None
                self._wake()

        return event

    def _absorb(self) -> None:
        while self._events:
            self._dirty.add(self._events.popitem()[0])


def _daemon(znode: Znode) -> Daemon | None:
    """The registration of a launcher; None if it cannot be read."""
    try:
        return codec.decode(Daemon, znode)
    except Invalid:
        return None


def _newest(launchers: Iterable[Daemon]) -> dict[str, ProviderQuota]:
    """The newest report about each provider."""
    found: dict[str, QuotaReport] = {}
    for daemon in launchers:
        for provider, report in daemon.quotas.items():
            if provider not in found or report.read > found[provider].read:
                found[provider] = report
    return {
        provider: ProviderQuota(limits=each.limits, foreign=each.foreign, read=each.read)
        for provider, each in found.items()
    }
