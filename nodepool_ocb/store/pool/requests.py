"""The transactions of a launcher that serves requests. Each carries the versions of the views that were decided from.

The launcher holds the lock of a request from ``claim`` to ``fulfil``, ``decline`` or ``delete``. Each transaction between them
checks the contender of the lock, so a launcher that lost its lock writes nothing. ``hand_out`` needs no lock, since it does all
in one transaction. Every function raises Stale if another client was first: drop the step, and decide again. All raise the
other exceptions of ``Session.commit``, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from nodepool_ocb.errors import OutcomeUnknown, Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.pool import RequestState
from nodepool_ocb.model.records import Change, Check, Create, Delete, LockOwner, Set
from nodepool_ocb.pool.states import PoolNodeEvent, RequestEvent, pool_node_after, request_after
from nodepool_ocb.pool.views import PoolNodeView, RequestView
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import HeldLocks, Lock
from nodepool_ocb.store.pool.journal import PoolJournal


class RequestWriter:
    """``owner`` gives our statement for the lock of a request, by its purpose."""

    def __init__(
        self,
        session: Session,
        held: HeldLocks,
        owner: Callable[[str], LockOwner],
        journal: PoolJournal | None = None,
    ) -> None:
        self._session, self._held, self._owner = session, held, owner
        self._journal = journal or PoolJournal(session)

    def claim(self, request: RequestView) -> bool:
        """Take the lock, and set the request pending; whether the lock was free.

        For a request without a lock so far this is one transaction. A pending request is taken over as it is.
        """
        path = paths.request_lock(request.id)
        owner = self._owner(f"request {request.id}")
        beside = [self._pending(request)]
        if self._held.take_new(path, owner, beside):
            return True
        lock = self._held.take(path, owner)
        if lock is None:
            return False
        try:
            self._session.commit([lock.check, *beside])
        except BaseException:
            self._held.release(path)
            raise
        return True

    def hand_out(self, request: RequestView, nodes: Sequence[PoolNodeView], entry: Entry | None = None) -> bool:
        """Allocate these ready nodes, in the order of ``node_types``, and fulfil the request, in one transaction.

        It is refused if a client has, or had, the lock of the request: the lock's znode is created and deleted in it. False:
        the lock exists, or the nodes are too many for one transaction; claim the request.
        """
        path, now = paths.request_lock(request.id), self._session.now()
        given = tuple(node.id for node in nodes)
        pending = request_after(request.record, RequestEvent.CLAIM, now)
        record = request_after(pending, RequestEvent.FULFIL, now, nodes=given)
        changes: list[Change] = [Create(path), Delete(path, 0), Set(paths.request(request.id), record, request.version)]
        room = limits.Room(changes)
        if not all(room.take([self._allocated(request, node)]) for node in nodes):
            return False
        try:
            self._journal.commit(room.changes, entry)
        except Stale as stale:
            if stale.path == path and not stale.absent:
                return False
            raise
        return True

    def allocate(self, request: RequestView, nodes: Sequence[PoolNodeView]) -> None:
        """Allocate these ready nodes to a request that we hold: in as few transactions as bear the records.

        After an exception the nodes of earlier transactions are allocated: the next decision goes on with them.
        """
        lock = self._lock(request)
        beside: list[Change] = [lock.check, Check(paths.request(request.id), request.version)]
        changes = [self._allocated(request, node) for node in nodes]
        for part in limits.parts(limits.singly(changes), beside):
            self._session.commit([*beside, *part])

    def fulfil(self, request: RequestView, nodes: Sequence[PoolNodeView], entry: Entry | None = None) -> None:
        """Hand out these nodes, in the order of ``node_types``, and release the lock: if all have these versions."""
        given = tuple(node.id for node in nodes)
        record = request_after(request.record, RequestEvent.FULFIL, self._session.now(), nodes=given)
        checks = [Check(paths.pool_node(node.id), node.version) for node in nodes]
        self._end(request, [Set(paths.request(request.id), record, request.version), *checks], entry)

    def decline(self, request: RequestView, pools: Iterable[str], reason: str) -> None:
        """Add pools to those that cannot serve it, and release the lock."""
        self._without(request, pools, reason, RequestEvent.RETURN, None)

    def fail(self, request: RequestView, pools: Iterable[str], reason: str, entry: Entry | None = None) -> None:
        """As ``decline``, when no pool is left: the request fails."""
        self._without(request, pools, reason, RequestEvent.FAIL, entry)

    def _without(
        self, request: RequestView, pools: Iterable[str], reason: str, event: RequestEvent, entry: Entry | None
    ) -> None:
        declined = _newest((*request.record.declined_by, *pools))
        said = reason[: limits.REASON_CHARACTERS]
        record = request_after(request.record, event, self._session.now(), declined_by=declined, reason=said)
        self._end(request, [Set(paths.request(request.id), record, request.version)], entry)

    def delete(self, request: RequestView, entry: Entry | None = None) -> None:
        """Delete a request, and its lock if we hold it."""
        deletion = Delete(paths.request(request.id), request.version)
        if self._held.get(paths.request_lock(request.id)) is None:
            self._journal.commit([deletion], entry)
        else:
            self._end(request, [deletion], entry)
        self.sweep([request.id])

    def release(self, id: str) -> None:
        """Release the lock of a request, in any state: another launcher may take it over."""
        self._held.release(paths.request_lock(id))

    def sweep(self, ids: Iterable[str]) -> None:
        """Delete the locks of requests that are gone, unless a client holds or wants them (``PoolCache.strays``)."""
        folders = [paths.request_lock(id) for id in ids]
        for znode in self._session.get_many(folders):
            with suppress(Stale):
                if znode is not None:
                    self._session.commit([Delete(znode.path, znode.version)])

    def _allocated(self, request: RequestView, node: PoolNodeView) -> Set:
        """The allocation of a ready node. Raises Stale if it is not free any more."""
        if not node.free:
            raise Stale(f"node {node.id} is not free any more; decide anew", paths.pool_node(node.id))
        record = pool_node_after(
            node.record,
            PoolNodeEvent.ALLOCATE,
            self._session.now(),
            allocated_to=request.id,
            tenant_name=request.record.tenant_name,
            requestor=request.record.requestor,
        )
        return Set(paths.pool_node(node.id), record, node.version)

    def _pending(self, request: RequestView) -> Change:
        path = paths.request(request.id)
        if request.record.state is RequestState.PENDING:
            return Check(path, request.version)
        return Set(path, request_after(request.record, RequestEvent.CLAIM, self._session.now()), request.version)

    def _lock(self, request: RequestView) -> Lock:
        path = paths.request_lock(request.id)
        lock = self._held.get(path)
        if lock is None:
            raise Stale(f"the lock of request {request.id} was lost; decide anew", path)
        return lock

    def _end(self, request: RequestView, changes: Sequence[Change], entry: Entry | None) -> None:
        lock, path = self._lock(request), paths.request_lock(request.id)
        try:
            self._journal.commit([lock.end, *changes], entry)
        except OutcomeUnknown:
            self._held.release(path)  # it may be released already
            raise
        self._held.forget(path)


def _newest(ids: Sequence[str]) -> tuple[str, ...]:
    """The newest ids of pools that have room: launchers that ended leave their ids in a request that waits for long."""
    kept: list[str] = []
    room = limits.DECLINED_BYTES
    for each in reversed(dict.fromkeys(ids)):
        room -= len(each.encode()) + 3
        if room < 0:
            break
        kept.append(each)
    return tuple(reversed(kept))
