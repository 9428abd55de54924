"""The transactions on nodes of pools. A worker writes through a HeldNode, which holds the lock of the node.

Each write of a HeldNode carries the version of the write before, and checks the contender of the lock. So a launcher that
lost the lock writes nothing more. Every function raises Stale if another client was first, and the other exceptions of
``Session.commit``. After OutcomeUnknown or Stale, ``read`` reads the record of now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.pool import PoolNode, PoolNodeState
from nodepool_ocb.model.records import Append, Change, Delete, LockOwner, Set
from nodepool_ocb.pool.states import PoolNodeEvent, new_pool_node, pool_node_after, pool_node_in
from nodepool_ocb.pool.views import PoolNodeView
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import HeldLocks, Lock
from nodepool_ocb.store.pool.journal import PoolJournal
from nodepool_ocb.store.subtree import subtree

_TRIES: Final = 3  # of a deletion, while clients contend for the lock


class HeldNode:
    """A node with a lock that this process holds; ``record`` is as it was read or written last.

    Use it on one thread at a time.
    """

    def __init__(
        self,
        session: Session,
        held: HeldLocks,
        id: str,
        record: PoolNode,
        version: int,
        journal: PoolJournal | None = None,
    ) -> None:
        self.id: Final = id
        self.record = record
        self.version = version
        self._session, self._held = session, held
        self._journal = journal or PoolJournal(session)
        self._path, self._lock_path = paths.pool_node(id), paths.pool_node_lock(id)

    @property
    def held(self) -> bool:
        """Whether the lock is held, as far as this process knows. If not, act no more: another launcher may have it."""
        lock = self._held.get(self._lock_path)
        return lock is not None and lock.held(self._session)

    @property
    def given_up(self) -> bool:
        """Whether this process let go of the lock, or lost it with a session. It never has this lock again."""
        return self._held.get(self._lock_path) is None

    def note(self, **fields: Any) -> None:
        """Record facts; the state stays."""
        self._write(replace(self.record, **fields))

    def enter(self, state: PoolNodeState, entry: Entry | None = None, **fields: Any) -> None:
        """Record the next state, with the other keys that change, and with an entry of the journal."""
        self._write(pool_node_in(self.record, state, self._session.now(), **fields), entry)

    def finish(self, state: PoolNodeState, entry: Entry | None = None, **fields: Any) -> None:
        """Record the next state, and release the lock in the same transaction; an entry of the journal stands in it, too."""
        record, lock = pool_node_in(self.record, state, self._session.now(), **fields), self._lock()
        try:
            self._journal.commit([lock.end, Set(self._path, record, self.version)], entry)
        except Stale:
            raise
        except BaseException:
            self.release()  # it may be released already
            raise
        self.record, self.version = record, self.version + 1
        self._held.forget(self._lock_path)

    def read(self) -> bool:
        """Read the record again; False if it is gone. Raises Invalid if it cannot be read."""
        znode = self._session.get(self._path)
        if znode is None or not znode.data:
            return False
        self.record, self.version = codec.decode(PoolNode, znode), znode.version
        return True

    def delete(self, entry: Entry | None = None) -> None:
        """Delete the record with its lock, and release that. Contenders that wait for the lock are deleted, too."""
        self._lock()
        for tries_left in reversed(range(_TRIES)):
            znodes = subtree(self._session, self._path)
            versions = {znode.path: znode.version for znode in znodes} | {self._path: self.version}
            try:
                self._journal.commit([Delete(znode.path, versions[znode.path]) for znode in znodes], entry)
                break
            except Stale as stale:  # a contender came or went meanwhile
                if (stale.path == self._path and not stale.absent and self._moved()) or not tries_left:
                    raise
        self._held.forget(self._lock_path)

    def release(self) -> None:
        """Let go of the lock; it never raises Unavailable (``Locks.release``)."""
        self._held.release(self._lock_path)

    def _moved(self) -> bool:
        """Whether the record has another version than ours."""
        znode = self._session.get(self._path)
        return znode is None or znode.version != self.version

    def _write(self, record: PoolNode, entry: Entry | None = None) -> None:
        self._journal.commit([self._lock().check, Set(self._path, record, self.version)], entry)
        self.record, self.version = record, self.version + 1

    def _lock(self) -> Lock:
        lock = self._held.get(self._lock_path)
        if lock is None:
            raise Stale(f"the lock of node {self.id} was lost; leave it to the next launcher", self._lock_path)
        return lock


class RenewedSlot(NamedTuple):
    """A returned node of a lent machine, the node that follows it in its slot (in ``init``), and an entry about the first."""

    node: PoolNodeView
    heir: PoolNode
    entry: Entry | None = None


class NodeWriter:
    """``owner`` gives our statement for the lock of a node, by its purpose."""

    def __init__(
        self,
        session: Session,
        held: HeldLocks,
        owner: Callable[[str], LockOwner],
        journal: PoolJournal | None = None,
    ) -> None:
        self._session, self._held, self._owner = session, held, owner
        self._journal = journal or PoolJournal(session)

    def create(self, purpose: str, **fields: Any) -> HeldNode | None:
        """Make the record of a node in ``init``, with these keys, and take its lock; None if another client has the lock already.

        If it fails between the two, the record stays, and its launcher or another one takes it over.
        """
        record = new_pool_node(self._session.now(), **fields)
        self._session.ensure(paths.POOL_NODES)
        id = self._session.create_next(f"{paths.POOL_NODES}/", record).rpartition("/")[2]
        held = HeldNode(self._session, self._held, id, record, 0, self._journal)
        return held if self._held.take_new(paths.pool_node_lock(id), self._owner(purpose)) else None

    def hold(self, id: str, purpose: str) -> HeldNode | None:
        """Take the lock of a node, and read its record; None if the lock is not free, or the node is gone.

        Raises Invalid if the record cannot be read.
        """
        lock_path = paths.pool_node_lock(id)
        if self._held.take(lock_path, self._owner(purpose)) is None:
            return None
        try:
            znode = self._session.get(paths.pool_node(id))
            if znode is not None and znode.data:
                record = codec.decode(PoolNode, znode)
                return HeldNode(self._session, self._held, id, record, znode.version, self._journal)
        except BaseException:
            self._held.release(lock_path)
            raise
        self._held.release(lock_path)
        return None

    def drop(self, node: PoolNodeView, entry: Entry | None = None) -> bool:
        """Delete the record of a node that is not locked, in one transaction, at the version that was decided from.

        False: a client has the lock or waits for it, or the record changed. A lock with a contender cannot be deleted.
        """
        try:
            self._journal.commit(_removal(node), entry)
        except Stale:
            return False
        return True

    def renew(self, slots: Sequence[RenewedSlot]) -> None:
        """Put a ready node in the place of each returned one, all in one transaction, at the versions that were decided from.

        Each new node has a new id, and a lock only after a client takes it. Raises Stale if a record changed, or if a client
        has the lock of one or waits for it.
        """
        now, changes = self._session.now(), list[Change]()
        for each in slots:
            ready = pool_node_in(each.heir, PoolNodeState.READY, now)
            changes += _removal(each.node)
            changes.append(Append(paths.POOL_NODES, ready))
        self._journal.commit(changes, *(each.entry for each in slots))

    def free(self, node: PoolNodeView) -> None:
        """Make an allocated node free for any request, at the version that was decided from."""
        gone: dict[str, Any] = {"allocated_to": None, "tenant_name": None, "requestor": None}
        record = pool_node_after(node.record, PoolNodeEvent.FREE, self._session.now(), **gone)
        self._session.commit([Set(paths.pool_node(node.id), record, node.version)])

    def delete_empty(self, name: str) -> None:
        """Delete a znode without data among the nodes, with the locks below it; nothing happens if it has data by now."""
        znodes = subtree(self._session, paths.pool_node(name))
        with suppress(Stale):
            if znodes and not znodes[-1].data and not any(znode.ephemeral_owner for znode in znodes):
                self._session.commit([Delete(znode.path, znode.version) for znode in znodes])


def _removal(node: PoolNodeView) -> list[Change]:
    """The deletion of a record without a holder, and of its lock, which exists without a contender."""
    return [Delete(paths.pool_node_lock(node.id), 0), Delete(paths.pool_node(node.id), node.version)]
