"""A private cluster of real processes to be broken: annealers, each behind a proxy of its own, and machines with sshd.

Everything a fleet starts it ends, by process id, whatever state that is in; its chroot and its folder are its own.
Objects are written straight to ZooKeeper, so that what is tested is the annealer and nothing before it.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.claim import settling
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Stale, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Change,
    Claim,
    Create,
    Daemon,
    Deployment,
    DeploymentState,
    Fence,
    Json,
    Node,
    NodeRole,
    Role,
    Run,
    Set,
    State,
)
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.looks import rest
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import ANNEALER, CutDaemon
from nodepool_ocb.testing.zookeeper.ensemble import Ensemble
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys import evidence, history
from tests.journeys.evidence import WITNESS
from tests.journeys.history import Entry, Evidence, Recorded
from tests.journeys.history import Event as Noted

SESSION_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 30.0
DEPLOYMENT: Final = "fleet"


class Fleet:
    """Machines ``m0``, ``m1``, ... and annealers ``a0``, ``a1``, ...; ``session`` is the test's own."""

    def __init__(self, server: Server | Ensemble, chroot: str, folder: Path, machines: int = 1) -> None:
        self.server, self.folder = server, folder
        self.chroot = chroot
        self.hosts = server.hosts + chroot
        self.farm = Farm(machines, folder / "machines")
        self.annealers: list[CutDaemon] = []
        self.session = Session(self.settings(30.0))
        self.nodes: list[str] = []
        self.mute: set[str] = set()  # machines whose runner cannot write down all that it does
        self.doomed: set[str] = set()  # machines whose destructive runs may be lost
        self._lives: defaultdict[str, list[float]] = defaultdict(list)

    def __enter__(self) -> Fleet:
        self.farm.__enter__()
        self.session.start()
        clusters.bootstrap(self.session)
        committed = Deployment(state=DeploymentState.COMMITTED, since=time.time())
        self.session.commit(
            [Create(paths.deployment(DEPLOYMENT), committed), Create(paths.deployment_roles(DEPLOYMENT))]
        )
        for fqdn, node in self.farm.records():
            self.add_node(fqdn, replace(node, deployment=DEPLOYMENT, alive=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for annealer in self.annealers:
            annealer.discard()
            print(f"-- {annealer.pid} --\n{annealer.said}")  # pytest shows it where the test fails
        self.session.close()
        self.farm.__exit__(kind, error, trace)

    def settings(self, session_seconds: float) -> ZooKeeperSettings:
        """For a session that nobody disturbs."""
        return ZooKeeperSettings(hosts=self.hosts, session_timeout_seconds=session_seconds)

    def settings_of_annealers(self, session_seconds: float) -> ZooKeeperSettings:
        """``hosts`` is the chroot alone."""
        return ZooKeeperSettings(hosts=self.chroot, session_timeout_seconds=session_seconds)

    # -- annealers --

    def annealer(
        self,
        *,
        launcher: Collection[str] = ANNEALER,
        session_seconds: float = SESSION_SECONDS,
        own_key: str | None = None,
        **settings: Any,
    ) -> CutDaemon:
        """One more, not started yet; ``settings`` are of its section ``annealer``.

        With ``own_key`` its private key is a copy of that name in its own folder.
        """
        folder = self.folder / f"a{len(self.annealers)}"
        ssh = self.farm.settings() | {"connect_timeout_seconds": 2.0}
        if own_key is not None:
            folder.mkdir(parents=True, exist_ok=True)
            ssh["key_files"] = [str(shutil.copy(ssh["key_files"][0], folder / own_key))]
        zookeeper = self.settings_of_annealers(session_seconds)
        sections = {
            "annealer": {
                "log_dir": str(folder / "runs"), "probe_seconds": 2.0, "dead_probe_seconds": 0.3, "sweep_seconds": 5.0
            } | settings,
            "ssh": ssh,
        }  # fmt: skip
        annealer = CutDaemon(self.server.ports, zookeeper, folder, sections, launcher)
        self.annealers.append(annealer)
        return annealer

    def revive(self) -> None:
        """Start those again that ended because ZooKeeper was not there when they began."""
        for annealer in self.annealers:
            annealer.begin_again()

    def living(self) -> int:
        """How many annealers ZooKeeper knows."""
        return len(self.session.children(paths.daemons("annealer")) or ())

    # -- objects --

    def add_node(self, fqdn: str, node: Node) -> None:
        self.session.commit(
            [
                Create(paths.node(fqdn), node),
                Create(paths.fence(fqdn), Fence()),
                Create(paths.noderoles(fqdn)),
            ]
        )
        self.nodes.append(fqdn)

    def add_role(self, name: str, role: Role) -> None:
        self.session.commit([Create(paths.role(name), role)])

    @staticmethod
    def work(seconds: float, then: str = "", **fields: Any) -> Role:
        """A role whose script takes so long, then does what is said; its machine witnesses it."""
        return Role(barclamp="fleet", jig="script", script=f"{WITNESS}sleep {seconds}\n{then}\n", **fields)

    def bind(
        self,
        role: str,
        fqdn: str,
        parents: Iterable[str] = (),
        *,
        deployment: str = DEPLOYMENT,
        hooks: tuple[str, ...] = (),
    ) -> str:
        """A committed noderole: TODO, or BLOCKED where it has parents."""
        above = tuple(sorted(parents))
        record = NodeRole.of(
            state=State.BLOCKED if above else State.TODO,
            since=time.time(),
            deployment=deployment,
            parents=above,
            hooks=hooks,
            generation=0 if above else 1,
        )
        path = paths.noderole(role, fqdn)
        self.session.commit([Create(path, record), Create(paths.runs(role, fqdn))])
        return paths.noderole_name(role, fqdn)

    # -- what people do --

    def happens(self, noderole: str, event: Event) -> None:
        """An event that a person causes, with what it forces on neighbours."""

        def changes(world: World) -> list[Change]:
            vertex = vertex_of(world, noderole)
            moved = apply({vertex: event}, time.time(), by="a person")
            return list(settling(moved))

        self.write(changes)

    def begins_anew(self, *noderoles: str) -> None:
        """They were deleted just now, and will be bound again: what their machines note from here on is another life."""
        for noderole in noderoles:
            self._lives[noderole].append(evidence.uptime())

    def set_node(self, fqdn: str, **fields: Any) -> None:
        self.write(lambda world: _changed(paths.node(fqdn), world.nodes[fqdn], fields))

    def set_deployment(self, state: DeploymentState) -> None:
        self.write(
            lambda world: _changed(paths.deployment(DEPLOYMENT), world.deployments[DEPLOYMENT], {"state": state})
        )

    def write(self, changes: Callable[[World], list[Change]]) -> None:
        """Commit what is decided from the world as it is; again where it moved on meanwhile."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.session.commit(changes(load_world(self.session)))
            except (Stale, Unavailable):
                assert time.monotonic() < deadline, "the world moves on and on"
            else:
                return

    # -- what is --

    def record(self, noderole: str) -> NodeRole:
        role, fqdn = paths.split_noderole(noderole)
        znode = self.session.get(paths.noderole(role, fqdn))
        assert znode is not None, f"{noderole} was bound"
        return codec.decode(NodeRole, znode)

    def state(self, noderole: str) -> State:
        return self.record(noderole).state

    def node(self, fqdn: str) -> Node:
        znode = self.session.get(paths.node(fqdn))
        assert znode is not None, f"{fqdn} was added"
        return codec.decode(Node, znode)

    def runs(self, noderole: str) -> dict[str, Run]:
        """The records of its runs, oldest first."""
        role, fqdn = paths.split_noderole(noderole)
        names = sorted(self.session.children(paths.runs(role, fqdn)) or ())
        znodes = self.session.get_many([paths.run(role, fqdn, name) for name in names])
        return {name: codec.decode(Run, znode) for name, znode in zip(names, znodes, strict=True) if znode}

    def claim(self, fqdn: str | None = None) -> Claim:
        """The claim on a node, the first where none is named, which is there."""
        znode = self.session.get(paths.claim(fqdn or self.nodes[0]))
        assert znode is not None, "the node is claimed"
        return codec.decode(Claim, znode)

    def claim_stands(self, fqdn: str) -> bool:
        return self.session.get(paths.claim(fqdn)) is not None

    def held_by(self, fqdn: str | None = None) -> CutDaemon | None:
        """Whose claim is on a node."""
        claim = self.session.get(paths.claim(fqdn or self.nodes[0]))
        daemon = claim and self.session.get(paths.daemon("annealer", codec.decode(Claim, claim).annealer))
        pid = codec.decode(Daemon, daemon).pid if daemon else 0
        return next((annealer for annealer in self.annealers if annealer.pid == pid), None)

    def blob(self, path: str) -> Json:
        """An attribute blob."""
        znode = self.session.get(path)
        return msgspec.json.decode(znode.data) if znode else None

    # -- what machines say --

    def evidence(self) -> Evidence:
        """All that the checker may want to know."""
        world = load_world(self.session)
        noderoles = {
            vertex.name: Recorded(vertex.record, destructive(world, vertex), self.runs(vertex.name))
            for vertex in world.vertices()
            if vertex.node.name in self.nodes
        }
        return Evidence(
            self.entries(),
            [work for fqdn in self.nodes for work in evidence.work(fqdn, self.farm.state_dir(fqdn).parent)],
            noderoles,
            self._lives,
            self.mute,
            self.doomed,
        )

    def entries(self) -> list[Entry]:
        """The history of every machine that can write one."""
        heard = [fqdn for fqdn in self.nodes if fqdn not in self.mute]
        return [entry for fqdn in heard for entry in evidence.entries(fqdn, self.farm.memories(fqdn))]

    def faults(self) -> list[str]:
        """What the checker has to say."""
        return history.faults(self.evidence())

    def broken(self) -> set[str]:
        """The rules that the checker finds broken."""
        return {fault.partition(":")[0] for fault in self.faults()}

    def noted(self, event: Noted) -> Counter[str]:
        """How often each noderole had it noted on its machine."""
        return Counter(entry.noderole for entry in self.entries() if entry.event is event)

    def starts(self) -> Counter[str]:
        return self.noted(Noted.STARTED)

    def until_started(self, noderole: str) -> None:
        self.until(lambda: self.starts()[noderole], f"{noderole} starts")

    def unfinished(self) -> list[str]:
        """Every noderole that is not ACTIVE, nor given up for a person to look at its machine."""
        world = load_world(self.session)
        return [
            vertex.name
            for vertex in world.vertices()
            if vertex.record.state is not State.ACTIVE
            and not history.given_up(vertex.name, vertex.record, destructive(world, vertex), self.doomed)
        ]

    def at_work(self) -> list[str]:
        """The machines on which something of a run still lives."""
        return [fqdn for number, (fqdn, _) in enumerate(self.farm.records()) if self.farm.at_work(number)]

    def until(self, holds: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for it; while ZooKeeper is away nothing holds."""
        looked = time.monotonic()
        deadline = looked + seconds
        while True:
            with contextlib.suppress(Unavailable):
                if holds():
                    return
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
            looked = rest(looked)

    def until_state(self, noderole: str, state: State, seconds: float = PATIENCE_SECONDS) -> None:
        self.until(lambda: self.state(noderole) is state, f"{noderole} {state}", seconds)

    def until_all_active(self, seconds: float = PATIENCE_SECONDS) -> None:
        self.until(lambda: not self.unfinished(), "every noderole is ACTIVE", seconds)


def destructive(world: World, vertex: Vertex) -> bool:
    """Whether it must not be done twice."""
    return "destructive" in world.role_of(vertex).flags


def vertex_of(world: World, noderole: str) -> Vertex:
    vertex = world.vertex(noderole)
    assert vertex is not None, f"{noderole} was bound"
    return vertex


def _changed(path: str, stored: Any, fields: Mapping[str, Any]) -> list[Change]:
    return [Set(path, replace(stored.record, **fields), stored.version)]
