"""The procedure of ``lease run``: from the request to the return of the nodes.

The request is ephemeral, and each node is locked by the same session. If this process dies, the session ends: the request goes,
and launchers delete the nodes, which are in-use without a lock. The command is ended before that (leasing/guardian.py).
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from nodepool_ocb.config import SshSettings
from nodepool_ocb.errors import OcbError, Stale, Unavailable
from nodepool_ocb.leasing import access, workspace
from nodepool_ocb.leasing.command import CaughtSignals, CommandRefused, GuardedCommand, LeaseHeartbeat, caught
from nodepool_ocb.leasing.nodes import LeasedNode, leased
from nodepool_ocb.leasing.workspace import LeaseWorkspace
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import NodeRequest, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.model.records import Change, Delete, LockOwner, Set
from nodepool_ocb.operations.leases.order import LeaseEnded, LeaseExit, LeaseOrder
from nodepool_ocb.operations.performer import Reader
from nodepool_ocb.operations.reads.pools import CreateRequest
from nodepool_ocb.operations.requests.reading import RequestShow
from nodepool_ocb.pool.states import PoolNodeEvent, pool_node_after
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.locks import Lock, Locks
from nodepool_ocb.views.times import age

ATTEMPTS: Final = 3  # a node may be lost between the end of its launch and its lock
BEAT_SECONDS: Final = 0.25
EXPLAINED_SECONDS: Final = 15.0  # between two explanations of a wait, which read all requests and nodes
FIRST_EXPLAINED_SECONDS: Final = 2.0
WARNED_SECONDS: Final = 300.0  # before the end of the lease, or a tenth of it
RETURN_SECONDS: Final = 30.0  # for the return, while ZooKeeper does not answer
EXPIRY_SECONDS: Final = 120  # that the key of a lease is valid longer than the lease
LOCK_LOST: Final = "the lock of a node was lost, so COMMAND was ended"


#: Of each node its id, the label that was asked for, and the record.
FoundNodes: TypeAlias = list[tuple[str, str, PoolNode]]


class LeaseOver(Exception):
    """The run ends here."""

    def __init__(self, code: int, reason: str | None = None) -> None:
        super().__init__(reason)
        self.ended = LeaseEnded(code=code, reason=reason)


class _Held(NamedTuple):
    """A node that is locked."""

    id: str
    lock: Lock


class Lending:
    """One lease. ``run`` is called on the main thread: signals are noted there."""

    def __init__(self, reader: Reader, order: LeaseOrder) -> None:
        self._reader, self._order = reader, order
        self._session = reader.session
        self._began = self._session.id
        self._note = reader.performer.caller.note
        self._locks = Locks(self._session)
        self._held: list[_Held] = []
        self._wake = threading.Event()

    def run(self) -> LeaseEnded:
        """The whole lease; raises OcbError if none was made."""
        deadline = None if self._order.wait_seconds is None else time.monotonic() + self._order.wait_seconds
        with caught() as signals:
            try:
                request, found = self._take(deadline, signals)
                with self._returned():
                    return self._use(request, leased(found), signals)
            except LeaseOver as over:
                return over.ended

    # -- the nodes --

    def _take(self, deadline: float | None, signals: CaughtSignals) -> tuple[str, FoundNodes]:
        """The id of the request, and its nodes, locked and in-use. Raises LeaseOver."""
        for _ in range(ATTEMPTS):
            create = CreateRequest(self._order.priority, self._order.record, ephemeral=True)
            id = create.carry_out(self._reader)
            try:
                self._session.watch(paths.request(id), self._woken)
                request = self._fulfilled(id, deadline, signals)
                taken = self._used(id, request)
            except BaseException:
                self._withdraw(id)
                raise
            if taken is not None:
                return id, taken
            self._withdraw(id)
        raise LeaseOver(
            LeaseExit.REQUEST_FAILED, f"the nodes of {ATTEMPTS} requests were lost before they could be locked"
        )

    def _fulfilled(self, id: str, deadline: float | None, signals: CaughtSignals) -> NodeRequest:
        """The request when it is fulfilled. Raises LeaseOver."""
        said, explain_at = "", time.monotonic() + FIRST_EXPLAINED_SECONDS
        while True:
            self._wake.clear()
            if signals.numbers:
                raise LeaseOver(128 + signals.numbers[0], f"request {id} was withdrawn after a signal")
            if self._session.id != self._began:
                raise LeaseOver(LeaseExit.NO_LEASE, f"the session with ZooKeeper ended, and request {id} with it")
            with suppress(Unavailable):  # it may answer again before the session ends
                record = self._request(id)
                if record.state is RequestState.FULFILLED:
                    return record
                if time.monotonic() >= explain_at:
                    said, explain_at = self._explain(id, said), time.monotonic() + EXPLAINED_SECONDS
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise LeaseOver(LeaseExit.NOT_IN_TIME, f"request {id} was not served in time{said and f': {said}'}")
            self._wake.wait(min(1.0, 1.0 if deadline is None else max(0.0, deadline - now)))

    def _request(self, id: str) -> NodeRequest:
        znode = self._session.get(paths.request(id))
        if znode is None:
            raise LeaseOver(LeaseExit.REQUEST_FAILED, f"request {id} was deleted")
        record = codec.decode(NodeRequest, znode)
        if record.state is RequestState.FAILED:
            raise LeaseOver(LeaseExit.REQUEST_FAILED, f"request {id} failed: {record.reason or 'no pool can serve it'}")
        return record

    def _explain(self, id: str, said: str) -> str:
        """Tell why the request waits, if that is new; gives the reason."""
        with suppress(OcbError):
            reason = self._reader.performer.ask(RequestShow(request=id), self._session).row.reason or ""
            if reason and reason != said:
                self._note(f"request {id} waits: {reason}")
            return reason
        return said

    def _used(self, id: str, request: NodeRequest) -> FoundNodes | None:
        """Lock the nodes, and set them in-use in the transaction that deletes the request. None: one of them is lost."""
        me = LockOwner(
            daemon=self._reader.performer.call.login,
            host=self._reader.performer.call.host,
            pid=os.getpid(),
            purpose=f"lease run of {id}",
            since=self._session.now(),
        )
        try:
            for node in request.nodes:
                lock = self._locks.take(paths.pool_node_lock(node), me)
                if lock is None:
                    break
                self._held.append(_Held(node, lock))
            else:
                return self._marked(id, request)
        except BaseException:
            self._release()
            raise
        self._release()
        return None

    def _marked(self, id: str, request: NodeRequest) -> FoundNodes | None:
        of_nodes = [paths.pool_node(node) for node in request.nodes]
        head, *znodes = self._session.get_many([paths.request(id), *of_nodes])
        found = [None if znode is None else codec.decode(PoolNode, znode) for znode in znodes]
        changes: list[Change] = [held.lock.check for held in self._held]
        records: list[PoolNode] = []
        for znode, record in zip(znodes, found, strict=True):
            if znode is None or record is None or record.state is not PoolNodeState.READY or record.allocated_to != id:
                self._release()
                return None
            after = pool_node_after(record, PoolNodeEvent.USE, self._session.now())
            changes.append(Set(znode.path, after, znode.version))
            records.append(after)
        try:
            self._session.commit([*changes, *([Delete(head.path, head.version)] if head is not None else [])])
        except Stale:
            self._release()
            return None
        return list(zip(request.nodes, request.node_types, records, strict=True))

    def _withdraw(self, id: str) -> None:
        """Delete the request, if it is there; else it goes with the session."""
        with suppress(OcbError):
            znode = self._session.get(paths.request(id))
            if znode is not None:
                self._session.commit([Delete(znode.path, znode.version)])

    def _release(self) -> None:
        for held in self._held:
            self._locks.release(held.lock)
        self._held.clear()

    # -- the command --

    def _use(self, request: str, nodes: Sequence[LeasedNode], signals: CaughtSignals) -> LeaseEnded:
        order = self._order
        place = workspace.make(None if order.identity is None else Path(order.identity))
        mark = f"{access.MARK}{secrets.token_hex(8)}"
        command: GuardedCommand | None = None
        try:
            reached = self._open(nodes, place, mark)
            place.describe(reached)
            environment = place.environment(request, reached, time.time() + order.seconds)
            heartbeat = LeaseHeartbeat(self._session.timeout_seconds)
            command = GuardedCommand(order.command, environment, place.directory, heartbeat.margin_seconds)
            with command:
                return self._followed(command, heartbeat, nodes, signals)
        finally:
            workspace.remove(place)
            if place.public_key is not None and self._session.id == self._began:
                for failed in access.withdraw(nodes, self._ssh(), mark):
                    self._note(f"the key of the lease may stay on node {failed.node} until it expires: {failed.reason}")

    def _ssh(self) -> SshSettings:
        return self._reader.performer.settings().ssh

    def _open(self, nodes: Sequence[LeasedNode], place: LeaseWorkspace, mark: str) -> Sequence[LeasedNode]:
        """Authorize the key of the lease on the nodes. Raises LeaseOver."""
        if place.public_key is None:
            return nodes
        seconds = int(self._order.seconds) + EXPIRY_SECONDS
        reached, failed = access.put(nodes, self._ssh(), mark, place.public_key, seconds)
        if failed:
            why = "; ".join(each.reason for each in failed[:3])
            raise LeaseOver(
                LeaseExit.NO_LEASE, f"the key of the lease cannot be put on its nodes: {why}; or give --identity FILE"
            )
        return reached

    def _followed(
        self, command: GuardedCommand, heartbeat: LeaseHeartbeat, nodes: Sequence[LeasedNode], signals: CaughtSignals
    ) -> LeaseEnded:
        """Start the command, and follow it to its end."""
        for node in nodes:
            self._session.watch(paths.pool_node(node.id), self._woken)
        until = heartbeat.until(self._session.silent_seconds)
        if until is None:
            raise LeaseOver(LeaseExit.LEASE_LOST, "the session with ZooKeeper ended before COMMAND began")
        refused = command.start(until)
        if not self._holds():
            raise LeaseOver(LeaseExit.LEASE_LOST, LOCK_LOST)
        if isinstance(refused, CommandRefused):
            code = LeaseExit.NOT_FOUND if refused.missing else LeaseExit.NOT_EXECUTABLE
            raise LeaseOver(code, f"{self._order.command[0]} cannot be executed: {refused.reason}")
        over = self._beating(command, heartbeat, signals)
        if command.left:
            self._note(f"{command.left} processes of COMMAND cannot be ended; the nodes are returned as used")
        if command.late:
            over = LeaseEnded(
                code=LeaseExit.LEASE_LOST, reason="ZooKeeper did not answer in time, so COMMAND was ended"
            )
        return over or LeaseEnded(code=command.code if command.code is not None else 128 + 9)

    def _beating(self, command: GuardedCommand, heartbeat: LeaseHeartbeat, signals: CaughtSignals) -> LeaseEnded | None:
        """Until the command has ended; gives the cause if it did not end by itself."""
        end = time.monotonic() + self._order.seconds
        warn = end - min(WARNED_SECONDS, self._order.seconds / 10)
        over: LeaseEnded | None = None
        passed_on = 0  # how many signals
        while command.wait(BEAT_SECONDS) is None:
            now = time.monotonic()
            if (until := heartbeat.until(self._session.silent_seconds)) is not None:
                command.beat(until)
            if passed_on < len(signals.numbers):
                number = signals.numbers[passed_on]
                command.signal(number)
                passed_on += 1
                if number != 2 or passed_on > 1:  # an interrupt is left to the command, one time
                    command.end()
            if over is None and not self._holds():
                over = LeaseEnded(code=LeaseExit.LEASE_LOST, reason=LOCK_LOST)
            elif over is None and now >= end:
                seconds = age(self._order.seconds)
                over = LeaseEnded(
                    code=LeaseExit.TIME_OVER, reason=f"the lease ended after {seconds}, so COMMAND was ended"
                )
            elif now >= warn:
                self._note(f"the lease ends in {age(end - now)}: then COMMAND gets SIGTERM, and SIGKILL after that")
                warn = float("inf")
            if over is not None:
                command.end()
        return over

    def _holds(self) -> bool:
        """Whether the locks are held, as far as is known; asked again after each event at a node."""
        if self._session.id != self._began:
            return False
        if self._wake.is_set():
            self._wake.clear()
            try:
                return None not in self._session.get_many([held.lock.contender for held in self._held])
            except Unavailable:
                self._wake.set()
        return True

    def _woken(self, _kind: str, _path: str) -> None:
        self._wake.set()

    # -- the end --

    @contextmanager
    def _returned(self) -> Iterator[None]:
        """At the end the nodes are used, and free of their locks. After a lost session they belong to launchers."""
        try:
            yield
        finally:
            deadline = time.monotonic() + RETURN_SECONDS
            for held in self._held:
                self._return(held, deadline)
            self._held.clear()

    def _return(self, held: _Held, deadline: float) -> None:
        while self._session.id == self._began:
            try:
                if self._tried(held):
                    return
            except Unavailable as silent:
                if time.monotonic() >= deadline:
                    self._note(f"node {held.id} could not be returned, and launchers delete it: {silent}")
                    return
                self._wake.wait(0.5)
        self._note(f"node {held.id} was not returned, since the session with ZooKeeper ended; launchers delete it")

    def _tried(self, held: _Held) -> bool:
        """Whether the node is returned, or not ours any more."""
        znode, contender = self._session.get_many([paths.pool_node(held.id), held.lock.contender])
        if znode is None or contender is None:
            return True
        record = codec.decode(PoolNode, znode)
        changes: list[Change] = [held.lock.end]
        if record.state is PoolNodeState.IN_USE:
            after = pool_node_after(record, PoolNodeEvent.RETURN, self._session.now())
            changes.append(Set(znode.path, after, znode.version))
        try:
            self._session.commit(changes)
        except Stale:
            return False
        return True
