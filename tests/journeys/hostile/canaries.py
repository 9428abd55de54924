"""Canaries beside what is hostile: healthy noderoles on nodes of their own, and the annealers that work on them.

After each case they are run again (``sing``), and the annealers are compared with what they were before (``level``): the same
processes, with as much memory, as many descriptors and threads. ``quiet`` finds what loops. Each annealer is first in rank for
some of the canaries, so none can be away unseen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.engine.noderole import Event, after
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Deployment, DeploymentState, Fence, Node, NodeRole, Role, Set, State
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.looks import rest
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import DaemonProcess
from nodepool_ocb.testing.zookeeper.counters import transactions
from nodepool_ocb.testing.zookeeper.server import Server

PATIENCE_SECONDS: Final = 60.0
DEPLOYMENT: Final = "canaries"
MORE_BYTES: Final = 48 << 20  # that a process may take more than before: it lends and returns memory as it likes
MORE_DESCRIPTORS: Final = 4  # a page that is being read, a connection that is being made
MORE_THREADS: Final = 8  # threads of slots and hooks stay once they were needed


class Level(msgspec.Struct, frozen=True):
    """What the kernel says of a process."""

    pid: int
    resident_bytes: int
    descriptors: int
    threads: int


class Canaries:
    """Two annealers and their canaries; ``machines`` more canaries are scripts on real machines.

    ``session`` is the test's own; ``settings`` are of the annealers' section ``annealer``. What is hostile is put beside
    them with ``add_node``, ``add_role`` and ``bind``, or straight through the session.
    """

    def __init__(self, server: Server, chroot: str, folder: Path, *, machines: int = 0, **settings: Any) -> None:
        self.server, self.folder = server, folder
        self.zookeeper = ZooKeeperSettings(hosts=server.hosts + chroot, session_timeout_seconds=10.0)
        self.farm = Farm(machines, folder / "canary-machines")
        self.session = Session(ZooKeeperSettings(hosts=server.hosts + chroot, session_timeout_seconds=60.0))
        chosen = {"sweep_seconds": 1.0, "probe_seconds": 5.0, "dead_probe_seconds": 1.0} | settings
        self._settings = {"annealer": chosen}
        self.annealers: list[DaemonProcess] = []
        self.names: list[str] = []  # of the canaries
        self._before: list[Level] = []

    def __enter__(self) -> Canaries:
        self.farm.__enter__()
        self.session.start()
        clusters.bootstrap(self.session)
        committed = Deployment(state=DeploymentState.COMMITTED, since=time.time())
        self.session.commit(
            [Create(paths.deployment(DEPLOYMENT), committed), Create(paths.deployment_roles(DEPLOYMENT))]
        )
        try:
            self._start()
            self._hatch()
            self.sing()
        except BaseException:
            self.close()
            raise
        self._before = self._levels()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for annealer in self.annealers:
            annealer.close()
            print(f"-- annealer --\n{annealer.said[-20000:]}")  # pytest shows it where the test fails
        self.session.close()
        self.farm.__exit__(None, None, None)

    def _start(self) -> None:
        sections = self._settings | {"ssh": self.farm.settings() | {"connect_timeout_seconds": 2.0}}
        for number in range(2):
            self.annealers.append(DaemonProcess(self.zookeeper, self.folder / f"a{number}", sections).begin())
        self.until(lambda: all(each.ready() for each in self.annealers), "both annealers are ready")

    def _hatch(self) -> None:
        """An instant canary and one that takes a slot for each annealer, and one on each machine."""
        self.add_role("canary-instant", Role(barclamp="canaries", jig="noop"))
        self.add_role("canary-slot", Role(barclamp="canaries", jig="test"))
        self.add_role("canary-script", Role(barclamp="canaries", jig="script", script="true\n"))
        for fqdn in self._first_of_each():
            self.add_node(fqdn, Node(virtual=True, alive=True))
            self.names += [self.bind(role, fqdn) for role in ("canary-instant", "canary-slot")]
        for number, (_, node) in enumerate(self.farm.records()):
            fqdn = f"canary-machine-{number}.example.com"
            self.add_node(fqdn, msgspec.structs.replace(node, alive=True))
            self.names.append(self.bind("canary-script", fqdn))

    def _first_of_each(self) -> Iterator[str]:
        """For each annealer the name of a node at which it goes first."""
        living = self.session.children(paths.daemons("annealer")) or []
        for identity in living:
            ranking = Ranking(identity)
            ranking.among(living)
            yield next(name for name in (f"canary-{n}.example.com" for n in range(1000)) if not ranking.of(name))

    # -- objects --

    def add_node(self, fqdn: str, node: Node) -> None:
        self.session.commit(
            [Create(paths.node(fqdn), node), Create(paths.fence(fqdn), Fence()), Create(paths.noderoles(fqdn))]
        )

    def add_role(self, name: str, role: Role) -> None:
        self.session.commit([Create(paths.role(name), role)])

    def bind(self, role: str, fqdn: str, parents: Iterable[str] = (), deployment: str = DEPLOYMENT) -> str:
        """A committed noderole: TODO, or BLOCKED where it has parents."""
        above = tuple(sorted(parents))
        state, generation = (State.BLOCKED, 0) if above else (State.TODO, 1)
        record = NodeRole(state=state, since=time.time(), deployment=deployment, parents=above, generation=generation)
        self.session.commit([Create(paths.noderole(role, fqdn), record), Create(paths.runs(role, fqdn))])
        return paths.noderole_name(role, fqdn)

    def record(self, noderole: str) -> NodeRole:
        return self._read(noderole)[0]

    def _read(self, noderole: str) -> tuple[NodeRole, int]:
        znode = self.session.get(paths.noderole(*paths.split_noderole(noderole)))
        assert znode is not None, f"{noderole} was bound"
        return codec.decode(NodeRole, znode), znode.version

    # -- the canaries --

    def sing(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Each canary is run once more, and is ACTIVE again."""
        self.until(lambda: all(map(self._well, self.names)), "every canary is ACTIVE", seconds)
        wanted = {name: self._refresh(name) for name in self.names}

        def silent() -> dict[str, NodeRole]:
            records = {name: self.record(name) for name in wanted}
            return {
                name: record
                for name, record in records.items()
                if not (_well(record) and record.generation >= wanted[name])
            }

        try:
            self.until(lambda: not silent(), "every canary was run again and is ACTIVE", seconds)
        except AssertionError as missed:
            raise AssertionError(f"{missed}: {silent()}\n{self.said()[-3000:]}") from None
        assert all(annealer.running() for annealer in self.annealers), "both annealers run"

    def _well(self, name: str) -> bool:
        return _well(self.record(name))

    def _refresh(self, name: str) -> int:
        """The generation that is to be reached."""
        while True:
            record, version = self._read(name)
            refreshed = after(record, Event.REFRESH, time.time(), by="a canary")
            try:
                self.session.commit([Set(paths.noderole(*paths.split_noderole(name)), refreshed, version)])
            except Stale:
                continue
            return refreshed.generation

    # -- the annealers --

    def level(self, seconds: float = 15.0) -> None:
        """The annealers are those of before, and soon they use no more than then."""
        deadline = time.monotonic() + seconds
        while more := [
            fault for before, now in zip(self._before, self._levels(), strict=True) for fault in _more(before, now)
        ]:
            assert time.monotonic() < deadline, f"an annealer uses more than before: {'; '.join(more)}"
            time.sleep(0.1)

    def _levels(self) -> list[Level]:
        assert all(annealer.running() for annealer in self.annealers), "both annealers run"
        return [
            Level(each.pid, each.resident_bytes, _count(each.pid, "fd"), _count(each.pid, "task"))
            for each in self.annealers
        ]

    def turn_failures(self) -> float:
        """How many turns, or parts of one, have raised what nobody expected."""
        return sum(each.metric("nodepool_ocb_turn_failures_total") for each in self.annealers)

    def said(self) -> str:
        """The logs of both."""
        return "".join(each.said for each in self.annealers)

    def quiet(self, lines: int, writes: int, seconds: float = 3.0) -> None:
        """Within some of these seconds both say and write little: nothing is tried again and again, or told again and again.

        Raises AssertionError, with the newest lines, where that never comes within PATIENCE_SECONDS.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            before, wrote = self.said(), transactions(self.server)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(0.1)
            logged, written = self.said()[len(before) :], transactions(self.server) - wrote
            if logged.count("\n") <= lines and written <= writes:
                return
            assert time.monotonic() < deadline, f"{written} transactions in {seconds:g} s, and said:\n{logged[-3000:]}"

    def until(self, holds: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for it."""
        looked = time.monotonic()
        deadline = looked + seconds
        while not holds():
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
            looked = rest(looked)


def _well(record: NodeRole) -> bool:
    return record.state is State.ACTIVE and not record.refresh


def _count(pid: int, what: str) -> int:
    return len(os.listdir(f"/proc/{pid}/{what}"))


def _more(before: Level, now: Level) -> Iterator[str]:
    if now.pid != before.pid:
        yield f"process {now.pid} instead of {before.pid}"
    for field, allowed in (
        ("resident_bytes", MORE_BYTES),
        ("descriptors", MORE_DESCRIPTORS),
        ("threads", MORE_THREADS),
    ):
        was, uses = getattr(before, field), getattr(now, field)
        if uses > was + allowed:
            yield f"{uses} {field}, was {was}"
