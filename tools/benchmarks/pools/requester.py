"""A requester for the measurements: the same one for every launcher. It is told of each change by one watch."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

import msgspec

from benchmarks.pools.rack import LABEL
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import NodeRequest, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.model.records import Create, Delete, LockOwner, Set
from nodepool_ocb.pool.states import new_request, pool_node_in
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.testing.processes import await_that

ASKING: Final = 20  # threads that write requests


class Fulfilled(msgspec.Struct, frozen=True):
    """A request that has its nodes."""

    id: str
    nodes: tuple[str, ...]
    at: float  # of the clock perf_counter


class Requester:
    """Its session is its own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._events: SimpleQueue[tuple[str, float]] = SimpleQueue()
        session.ensure(paths.REQUESTS, paths.REQUEST_LOCKS, paths.POOL_NODES)
        session.watch(paths.REQUESTS, self._event)

    def _event(self, _kind: str, path: str) -> None:
        self._events.put((path.rpartition("/")[2], time.perf_counter()))

    # -- requests --

    def ask(self) -> tuple[str, float]:
        """Ask for one node; gives the id, and the time just before the request was written (perf_counter)."""
        now, began = self._session.now(), time.perf_counter()
        record = new_request(now, created_time=now, node_types=(LABEL,), requestor="bench")
        path = self._session.create_next(f"{paths.REQUESTS}/100-", record)
        return path.rpartition("/")[2], began

    def ask_many(self, count: int) -> list[str]:
        """Ask so many times for one node, some at a time; gives the ids."""
        with ThreadPoolExecutor(ASKING) as threads:
            return [id for id, _ in threads.map(lambda _: self.ask(), range(count))]

    def next(self, wanted: Iterable[str], timeout_seconds: float) -> list[Fulfilled]:
        """The requests among ``wanted`` that are fulfilled, at least one. Raises RuntimeError if none is in time."""
        deadline, known = time.monotonic() + timeout_seconds, frozenset(wanted)
        while (left := deadline - time.monotonic()) > 0:
            if done := self.now(known, left):
                return done
        raise RuntimeError(f"no request was fulfilled within {timeout_seconds:g} s")

    def now(self, wanted: Collection[str], seconds: float) -> list[Fulfilled]:
        """The requests among ``wanted`` that the next events show to be fulfilled; without an event none, after the time."""
        changed = self._changed(seconds)
        ids = [id for id in changed if id in wanted]
        found = self._session.get_many([paths.request(id) for id in ids])
        return [
            Fulfilled(id, record.nodes, changed[id])
            for id, znode in zip(ids, found, strict=True)
            if znode is not None and (record := _ended(codec.decode(NodeRequest, znode), id)) is not None
        ]

    def _changed(self, seconds: float) -> dict[str, float]:
        """The ids of changed requests, each with the time of its newest event."""
        changed: dict[str, float] = {}
        with suppress(Empty):
            changed |= dict([self._events.get(timeout=seconds)])
            while True:
                changed |= dict([self._events.get_nowait()])
        return changed

    # -- nodes --

    def use(self, done: Fulfilled) -> None:
        """Take the nodes, mark them in use, give them back, and delete the request: two transactions."""
        session, now = self._session, self._session.now()
        znodes = session.get_many([paths.pool_node(id) for id in done.nodes])
        folders = session.get_many([paths.pool_node_lock(id) for id in done.nodes])
        take: list[Create | Set] = []
        back: list[Delete | Set] = []
        owner = LockOwner(daemon="bench", host="bench", pid=0, purpose="in use", since=now)
        for znode, folder in zip(znodes, folders, strict=True):
            assert znode is not None, "a node of a fulfilled request exists"
            record = codec.decode(PoolNode, znode)
            used = pool_node_in(record, PoolNodeState.IN_USE, now)
            returned = pool_node_in(used, PoolNodeState.USED, now)
            place = paths.pool_node_lock(znode.path.rpartition("/")[2])
            lock = f"{place}/{secrets.token_hex(16)}__lock__{0:010}"
            take += [Create(place)] if folder is None else []
            take += [Create(lock, owner, ephemeral=True), Set(znode.path, used, znode.version)]
            back += [Delete(lock, 0), Set(znode.path, returned, znode.version + 1)]
        session.commit(take)
        session.commit([*back, *removal(session, paths.request(done.id))])

    def copy_nodes(self, other: Requester, count: int) -> None:
        """Make so many nodes with the records of another requester's ready nodes."""
        records = [record for record in other.nodes() if _free(record)]
        for number in range(count):
            path = self._session.create_next(f"{paths.POOL_NODES}/", records[number % len(records)])
            self._session.commit([Create(paths.pool_node_lock(path.rpartition("/")[2]))])

    def await_free(self, count: int, timeout_seconds: float) -> None:
        """Wait until so many nodes are ready and free."""
        await_that(lambda: sum(map(_free, self.nodes())) >= count, timeout_seconds, f"{count} nodes are ready")

    def nodes(self) -> list[PoolNode]:
        """The records of all nodes."""
        names = self._session.children(paths.POOL_NODES) or []
        znodes = self._session.get_many([paths.pool_node(name) for name in names])
        return [codec.decode(PoolNode, znode) for znode in znodes if znode is not None and znode.data]


def _free(record: PoolNode) -> bool:
    return record.state is PoolNodeState.READY and record.allocated_to is None


def _ended(record: NodeRequest, id: str) -> NodeRequest | None:
    """The record of a fulfilled request; None while it waits."""
    if record.state is RequestState.FAILED:
        raise RuntimeError(f"request {id} failed: {record.reason}")
    return record if record.state is RequestState.FULFILLED else None
