"""Requests for nodes, the nodes of pools, and the registered pools of launchers; the launchers' file of this host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.errors import Conflict, Denied, Invalid, Stale
from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import NodeRequest, PoolComponent
from nodepool_ocb.model.records import Check, Delete, LockOwner
from nodepool_ocb.operations.operation import Lookup, Procedure
from nodepool_ocb.pool.configuration import PoolConfiguration
from nodepool_ocb.pool.views import PoolMember, PoolView

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.store.client.session import Session


class FoundPool(msgspec.Struct, frozen=True):
    """``view``: the records; ``holders``: path of a lock → its holder; ``unread``: path of a record → why it is left out."""

    view: PoolView
    holders: Mapping[str, LockOwner]
    unread: Mapping[str, str]


class ReadPool(Lookup[FoundPool], frozen=True):
    """All requests, nodes of pools and registered pools, no older than this call. A requester sees no images."""

    records = "requests for nodes, nodes of pools, launchers"

    def answer(self, reader: Reader) -> FoundPool:
        from nodepool_ocb.pool.launches.ready_images import ready_images
        from nodepool_ocb.store import images
        from nodepool_ocb.store.locks import holders
        from nodepool_ocb.store.pool.tables import PoolNodeTable, RequestTable

        opened = reader.session
        opened.sync()
        requests, nodes, unread = RequestTable(), PoolNodeTable(), dict[str, str]()
        for table in (requests, nodes):
            table.read(opened, opened.children(table.folder) or ())
            unread |= table.quarantined
        locks = [*map(paths.request_lock, requests.views), *map(paths.pool_node_lock, nodes.views)]
        held = zip(locks, holders(opened, locks), strict=True)
        found: Mapping[str, ImageView] = {}
        with suppress(Denied):
            found = images.read(opened, images.names(opened), {})
        view = PoolView(
            requests=dict(sorted(requests.views.items())),
            nodes=dict(sorted(nodes.views.items())),
            unreadable=dict(sorted(nodes.unreadable.items())),
            members=tuple(members(opened, unread)),
            images=ready_images(found),
        )
        return FoundPool(view, {path: holder for path, holder in held if holder is not None}, unread)


class ReadPoolAtFirst(ReadPool, frozen=True):
    """As ``ReadPool``, one time in a call: the records as they were when agreement was asked for."""

    kept = True


def members(opened: Session, unread: dict[str, str]) -> Iterator[PoolMember]:
    """The pools of running launchers, of ours and of Nodepool's. ``unread`` gets the reason for each path that cannot be read."""
    from nodepool_ocb.store.client import codec

    pools, launchers = (
        opened.get_many([f"{folder}/{name}" for name in sorted(opened.children(folder) or ())])
        for folder in (paths.components("pool"), paths.daemons("launcher"))
    )
    native = {znode.ephemeral_owner for znode in launchers if znode is not None}
    for znode in pools:
        if znode is not None:
            owner = znode.ephemeral_owner
            try:
                record = codec.decode(PoolComponent, znode)
            except Invalid as wrong:
                unread[znode.path] = str(wrong)
            else:
                yield PoolMember(path=znode.path, record=record, session=owner, native=owner in native)


# -- writing --


class CreateRequest(Procedure[str], frozen=True):
    """Write the record of a request behind all of its priority; gives its id. The entry of the journal follows."""

    records = "requests for nodes"

    priority: int
    record: NodeRequest
    ephemeral: bool = False  # it ends with this call's session

    def carry_out(self, reader: Reader) -> str:
        prefix = f"{paths.REQUESTS}/{self.priority:03}-"
        try:
            path = reader.session.create_next(prefix, self.record, self.ephemeral)
        except Stale:  # the first request of the tree
            reader.session.ensure(paths.REQUESTS, paths.REQUEST_LOCKS)
            path = reader.session.create_next(prefix, self.record, self.ephemeral)
        id = path.rpartition("/")[2]
        reader.performer.journal.done(reader.session, "create", "request for nodes", [id])
        return id


class TakenLock(msgspec.Struct, frozen=True):
    """A lock that this call holds: the change that checks it, and the one that releases it."""

    check: Check
    end: Delete


class LockPoolNodes(Lookup[Mapping[str, TakenLock]], frozen=True):
    """Take the locks of nodes until the end of this call; gives them by id. A dry run takes none.

    Raises Conflict if one is held, with its holder.
    """

    records = "locks of nodes of pools"
    kept = True

    ids: tuple[str, ...]
    purpose: str

    @property
    def key(self) -> object:
        return LockPoolNodes, self.ids

    def answer(self, reader: Reader) -> Mapping[str, TakenLock]:
        from nodepool_ocb.store.locks import Locks, holders

        where = {id: paths.pool_node_lock(id) for id in self.ids}
        taken = {}
        locks, owner = Locks(reader.session), _me(reader, self.purpose)
        for id, path in where.items():
            lock = None if reader.performer.call.dry_run else locks.take(path, owner)
            if lock is not None:
                taken[id] = lock
                continue
            (holder,) = holders(reader.session, [path])
            if holder is not None or not reader.performer.call.dry_run:
                for other in taken.values():
                    locks.release(other)
                raise Conflict(f"node {id} is locked{_by(holder)}; wait until it is free: nodepool-ocb lease show {id}")
        return {id: TakenLock(lock.check, lock.end) for id, lock in taken.items()}


def _me(reader: Reader, purpose: str) -> LockOwner:
    import os

    call = reader.performer.call
    return LockOwner(daemon=call.login, host=call.host, pid=os.getpid(), purpose=purpose, since=reader.session.now())


def _by(holder: LockOwner | None) -> str:
    if holder is None:
        return ""
    return f" by {holder.daemon} on {holder.host} ({holder.purpose})" if holder.daemon != "?" else " by another client"


class KnownLimits(msgspec.Struct, frozen=True):
    """``file``: the nodepool.yaml of the performer's host; ``configuration`` is None if that is absent or not valid."""

    file: str
    configuration: PoolConfiguration | None


class ReadPoolConfiguration(Lookup[KnownLimits], frozen=True):
    """The labels, providers and limits in the nodepool.yaml of the performer's host. Launchers read their own files.

    Raises Invalid for a configuration (nodepool-ocb.yaml) that is not valid.
    """

    records = "configuration of the host"

    def answer(self, reader: Reader) -> KnownLimits:
        import os

        from nodepool_ocb.images import nodepool
        from nodepool_ocb.pool.documents.reading import pool_configuration
        from nodepool_ocb.providers import launching

        settings = reader.performer.settings().launcher
        if not os.path.exists(settings.nodepool):
            return KnownLimits(settings.nodepool, None)
        try:
            read = nodepool.load(settings.nodepool, settings.secure, environ=os.environ)
            found = pool_configuration(read, settings.nodepool, launching.drivers(), settings.patience_seconds)
        except Invalid:
            return KnownLimits(settings.nodepool, None)
        return KnownLimits(settings.nodepool, found if found.providers else None)
