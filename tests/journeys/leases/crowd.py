"""People that ask launchers for nodes, use the machines and return them, all at the same time in one thread of a test.

Each person goes on at the next look if ZooKeeper does not answer, and asks it then for the outcome of the last write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Stale, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import NodeRequest, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.model.records import LockOwner, Set
from nodepool_ocb.pool.states import new_request, pool_node_in
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Lock, Locks
from nodepool_ocb.store.subtree import removal
from tests.journeys.leases.slow_rules import Life, Wish
from tests.journeys.leases.visits import Machines, Visit

LOOK_SECONDS: Final = 0.05


class Stage(StrEnum):
    """How far a person has come."""

    ASKING = "asking"
    WAITING = "waiting"
    TAKING = "taking"
    USING = "using"
    RETURNING = "returning"
    DONE = "done"


class Person:
    """One wish, from the request to the return of its nodes. Call it on the thread of the crowd."""

    def __init__(self, wish: Wish, settings: ZooKeeperSettings, machines: Machines, shared: Session) -> None:
        self.wish, self.stage = wish, Stage.ASKING
        self.asked = self.ended = 0.0  # monotonic
        self.id: str | None = None
        self.failed: str | None = None
        self.faults: list[str] = []
        self._machines, self._name = machines, f"r{wish.number}"
        self._own = Session(settings) if wish.deserts else None
        self._session = self._own or shared
        self._taking = Locks(self._session)
        self._locks: dict[str, Lock] = {}
        self._nodes: tuple[str, ...] = ()
        self._visits: dict[str, Visit] = {}
        self._leaves = 0.0

    def go_on(self, requests: dict[str, NodeRequest]) -> None:
        """The next step, if it is time; ``requests`` are all that exist now."""
        steps: dict[Stage, Callable[[], None]] = {
            Stage.ASKING: partial(self._ask, requests),
            Stage.WAITING: partial(self._wait, requests),
            Stage.TAKING: self._take,
            Stage.USING: self._use,
            Stage.RETURNING: self._return,
        }
        if self.stage in steps:
            steps[self.stage]()

    @property
    def life(self) -> Life:
        """From the request to its end."""
        return Life(self.asked, self.ended)

    def close(self) -> None:
        """End everything that was begun."""
        for visit in self._visits.values():
            visit.close()
        if self._own is not None:
            self._own.close()

    # -- steps --

    def _ask(self, requests: dict[str, NodeRequest]) -> None:
        found = [id for id, record in requests.items() if record.requestor == self._name]
        if not found:
            if not self.asked:
                if self._own is not None:
                    self._own.start()
                self.asked = time.monotonic()
            now, wish = self._session.now(), self.wish
            record = new_request(
                now,
                created_time=now,
                node_types=wish.labels,
                requestor=self._name,
                relative_priority=wish.relative,
                tenant_name=wish.tenant,
            )
            path = self._session.create_next(f"{paths.REQUESTS}/{wish.priority}-", record, ephemeral=wish.deserts)
            found = [path.rpartition("/")[2]]
        if len(found) > 1:
            self.faults.append(f"{self._name}: two requests {found}")
        self.id, self.stage = found[0], Stage.WAITING

    def _wait(self, requests: dict[str, NodeRequest]) -> None:
        record = requests.get(self.id or "")
        if record is None or record.state not in (RequestState.FULFILLED, RequestState.FAILED):
            return
        self.ended, self._nodes = time.monotonic(), record.nodes
        if record.state is RequestState.FAILED:
            self.failed = record.reason or ""
            self.stage = Stage.RETURNING
            return
        if len(set(record.nodes)) != len(self.wish.labels):
            self.faults.append(f"{self._name}: {self.wish.labels} are fulfilled by {record.nodes}")
        self.stage = Stage.TAKING

    def _take(self) -> None:
        for id in self._nodes:
            if id not in self._locks:
                now = self._session.now()
                owner = LockOwner(daemon="test", host=self._name, pid=0, purpose="in use", since=now)
                lock = self._taking.take(paths.pool_node_lock(id), owner)
                if lock is None:
                    return
                self._locks[id] = lock
        for label, id in zip(self.wish.labels, self._nodes, strict=True):
            node = self._mark(id, PoolNodeState.READY, PoolNodeState.IN_USE)
            if label not in node.type or node.allocated_to != self.id:
                self.faults.append(f"{self._name}: {label} is served by {id}: {node.type} for {node.allocated_to}")
            if id not in self._visits:
                self._visits[id] = self._machines.visit(self._name, id, node)
        self.stage = Stage.USING

    def _use(self) -> None:
        if not all(visit.arrived() for visit in self._visits.values()):
            return
        now = time.monotonic()
        self._leaves = self._leaves or now + self.wish.seconds
        if now < self._leaves:
            return
        for visit in self._visits.values():
            visit.leave()
        if all(visit.over for visit in self._visits.values()):
            self.stage = Stage.RETURNING

    def _return(self) -> None:
        if self._own is not None:
            self._own.close()  # and the nodes stay as they are
            self.stage = Stage.DONE
            return
        for id, lock in list(self._locks.items()):
            if self._session.get(lock.contender) is not None:
                self._mark(id, PoolNodeState.IN_USE, PoolNodeState.USED)
                self._session.commit([lock.end])
            del self._locks[id]
        if self._session.get(paths.request(self.id or "")) is not None:
            self._session.commit(removal(self._session, paths.request(self.id or "")))
        self.stage = Stage.DONE

    def _mark(self, id: str, before: PoolNodeState, after: PoolNodeState) -> PoolNode:
        """Write the state of a node that we hold; it may be written already."""
        znode = self._session.get(paths.pool_node(id))
        if znode is None:
            raise AssertionError(f"node {id}, which {self._name} holds, is gone")
        record = codec.decode(PoolNode, znode)
        if record.state is not after:
            if record.state is not before:
                raise AssertionError(f"node {id}, which {self._name} holds, is {record.state}")
            record = pool_node_in(record, after, self._session.now())
            self._session.commit([Set(paths.pool_node(id), record, znode.version)])
        return record


class Crowd:
    """People that make their wishes from ``begin`` on; ``settings`` lead to ZooKeeper without a proxy."""

    def __init__(self, wishes: Sequence[Wish], settings: ZooKeeperSettings, machines: Machines) -> None:
        self._session = Session(settings)
        self.people = [Person(wish, settings, machines, self._session) for wish in wishes]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crowd", daemon=True)
        self._began = 0.0

    def __enter__(self) -> Crowd:
        self._session.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._began:
            self._thread.join(60.0)
        for person in self.people:
            person.close()
        self._session.close()

    def begin(self) -> None:
        """The first people ask now."""
        self._began = time.monotonic()
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether everybody has returned everything."""
        return all(person.stage is Stage.DONE for person in self.people)

    @property
    def faults(self) -> list[str]:
        """The facts that contradict a promise."""
        return [fault for person in self.people for fault in person.faults]

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                requests = self._requests()
            except Unavailable:
                continue
            due = time.monotonic() - self._began
            for person in self.people:
                if person.wish.after <= due:
                    self._go_on(person, requests)

    @staticmethod
    def _go_on(person: Person, requests: dict[str, NodeRequest]) -> None:
        try:
            person.go_on(requests)
        except (Stale, Unavailable):
            return  # the next look asks for the outcome
        except AssertionError as fault:
            person.faults.append(str(fault))
            person.stage = Stage.DONE

    def _requests(self) -> dict[str, NodeRequest]:
        names = self._session.children(paths.REQUESTS) or ()
        found = self._session.get_many([paths.request(name) for name in names])
        return {
            name: codec.decode(NodeRequest, znode)
            for name, znode in zip(names, found, strict=True)
            if znode is not None and znode.data
        }
