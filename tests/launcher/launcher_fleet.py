"""Launchers as real processes against a real server, with providers of driver fake: directories that show each machine and call.

A fleet ends everything that it starts; its chroot and its folder are its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import yaml

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import NodeRequest, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.model.records import Json, LockOwner, Set
from nodepool_ocb.pool.states import new_request, pool_node_in
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Lock, Locks
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.testing.looks import rest
from nodepool_ocb.testing.processes import LAUNCHER, CutDaemon
from nodepool_ocb.testing.zookeeper.server import Server

SESSION_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 30.0


class LauncherProcess(CutDaemon):
    """A launcher with a nodepool.yaml of its own."""


class LauncherFleet:
    """Launchers ``l0``, ``l1``, ...; ``session`` is the test's own, as a requester's."""

    def __init__(self, server: Server, chroot: str, folder: Path) -> None:
        self.server, self.folder, self.chroot = server, folder, chroot
        self.launchers: list[LauncherProcess] = []
        self.session = Session(ZooKeeperSettings(hosts=server.hosts + chroot, session_timeout_seconds=30.0))
        self.locks = Locks(self.session)

    def __enter__(self) -> LauncherFleet:
        self.session.start()
        clusters.bootstrap(self.session)
        self.session.ensure(paths.REQUESTS, paths.REQUEST_LOCKS, paths.POOL_NODES)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for launcher in self.launchers:
            launcher.discard(10.0)
            print(f"-- {launcher.config.parent.name} --\n{launcher.said}")  # pytest shows it where the test fails
        self.session.close()

    # -- launchers --

    def launcher(
        self,
        *providers: Mapping[str, Json],
        labels: Sequence[Mapping[str, Json]] = ({"name": "small"},),
        session_seconds: float = SESSION_SECONDS,
        command: Collection[str] = LAUNCHER,
        **settings: Json,
    ) -> LauncherProcess:
        """One more, not started yet; ``settings`` are of its section ``launcher``."""
        folder = self.folder / f"l{len(self.launchers)}"
        zookeeper = ZooKeeperSettings(hosts=self.chroot, session_timeout_seconds=session_seconds)
        quick = {"sweep_seconds": 5.0, "drain_seconds": 2.0, "leak_seconds": 2.0}
        sections = {"launcher": quick | settings, "admin_domain": "example.com"}
        made = LauncherProcess(self.server.ports, zookeeper, folder, sections, command)
        self.launchers.append(made)
        self.configure(made, *providers, labels=labels)
        return made

    @staticmethod
    def configure(
        launcher: LauncherProcess, *providers: Mapping[str, Json], labels: Sequence[Mapping[str, Json]] = ()
    ) -> None:
        """Write its nodepool.yaml; a running one takes it over when it sees the change."""
        document = {"labels": list(labels), "providers": list(providers)}
        (launcher.config.parent / "nodepool.yaml").write_text(yaml.safe_dump(document))

    def cloud(
        self, name: str, *labels: str, options: Mapping[str, Json] | None = None, **keys: Json
    ) -> dict[str, Json]:
        """A provider with one pool ``main``; ``options`` are of driver fake, ``keys`` of the pool."""
        folder = self.folder / "clouds" / name
        folder.mkdir(parents=True, exist_ok=True)
        offered: list[Json] = [{"name": label, "cloud-image": "debian"} for label in labels or ("small",)]
        return {
            "name": name,
            "driver": "fake",
            "fake-cloud": {"directory": str(folder), **(options or {})},
            "cloud-images": [{"name": "debian", "username": "root"}],
            "pools": [
                {"name": "main", "labels": offered, **{key.replace("_", "-"): value for key, value in keys.items()}}
            ],
        }

    def faults(self, cloud: str, *faults: Mapping[str, Json]) -> None:
        """The faults of a cloud from now on."""
        (self.folder / "clouds" / cloud / "faults.json").write_text(json.dumps(list(faults)))

    def machines(self, cloud: str) -> list[dict[str, Any]]:
        """The machines that exist."""
        folder = self.folder / "clouds" / cloud / "machines"
        found = []
        for file in sorted(folder.glob("*")) if folder.exists() else []:
            with suppress(FileNotFoundError):  # deleted meanwhile
                if not file.name.startswith("."):
                    found.append(json.loads(file.read_text()))
        return found

    def calls(self, cloud: str) -> list[str]:
        """The names of the calls that were begun."""
        file = self.folder / "clouds" / cloud / "calls.jsonl"
        return [json.loads(line)["call"] for line in file.read_text().splitlines()] if file.exists() else []

    # -- requesters --

    def request(self, *labels: str, priority: int = 100, **fields: Any) -> str:
        """Ask for nodes; gives the id."""
        now = self.session.now()
        record = new_request(now, created_time=now, node_types=labels or ("small",), requestor="test", **fields)
        return self.session.create_next(f"{paths.REQUESTS}/{priority}-", record).rpartition("/")[2]

    def read(self, id: str) -> NodeRequest | None:
        """The request as it is now."""
        znode = self.session.get(paths.request(id))
        return None if znode is None or not znode.data else codec.decode(NodeRequest, znode)

    def fulfilled(self, id: str, seconds: float = PATIENCE_SECONDS) -> list[PoolNode]:
        """Wait until the request is fulfilled; gives its nodes in order."""
        self.until_state(id, RequestState.FULFILLED, seconds)
        record = self.read(id)
        assert record is not None
        return [self.nodes()[each] for each in record.nodes]

    def until_state(self, id: str, state: RequestState, seconds: float = PATIENCE_SECONDS) -> NodeRequest:
        """Wait until the request is in a state."""
        self.until(lambda: (found := self.read(id)) is not None and found.state is state, f"{id} is {state}", seconds)
        record = self.read(id)
        assert record is not None
        return record

    def take(self, id: str) -> list[Lock]:
        """Lock the nodes of a fulfilled request and mark them in use, as a requester does."""
        record = self.read(id)
        assert record is not None
        found = []
        for node in record.nodes:
            owner = LockOwner(daemon="test", host="test", pid=0, purpose="in use", since=self.session.now())
            lock = self.locks.take(paths.pool_node_lock(node), owner)
            assert lock is not None
            self.mark(node, PoolNodeState.IN_USE)
            found.append(lock)
        return found

    def give_back(self, id: str, locks: Sequence[Lock], delete: bool = True) -> None:
        """Mark the nodes used, unlock them, and delete the request."""
        record = self.read(id)
        assert record is not None
        for node, lock in zip(record.nodes, locks, strict=True):
            self.mark(node, PoolNodeState.USED)
            self.locks.release(lock)
        if delete:
            self.delete(id)

    def delete(self, id: str) -> None:
        """Delete a request."""
        self.session.commit(removal(self.session, paths.request(id)))

    def mark(self, node: str, state: PoolNodeState, **fields: Any) -> None:
        """Write a node's state as a client does."""
        znode = self.znode(node)
        record = pool_node_in(codec.decode(PoolNode, znode), state, self.session.now(), **fields)
        self.session.commit([Set(paths.pool_node(node), record, znode.version)])

    def znode(self, node: str) -> Znode:
        found = self.session.get(paths.pool_node(node))
        assert found is not None
        return found

    # -- observations --

    def nodes(self, *states: PoolNodeState) -> dict[str, PoolNode]:
        """The nodes in these states, or all."""
        names = sorted(self.session.children(paths.POOL_NODES) or ())
        found = self.session.get_many([paths.pool_node(name) for name in names])
        records = {
            name: codec.decode(PoolNode, znode)
            for name, znode in zip(names, found, strict=True)
            if znode is not None and znode.data
        }
        return {name: record for name, record in records.items() if not states or record.state in states}

    def until(self, holds: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for a condition."""
        looked = time.monotonic()
        deadline = looked + seconds
        while not holds():
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}; nodes: {self.nodes()}"
            looked = rest(looked)
