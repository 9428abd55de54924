"""Hooks of an annealer without its daemon: a real ZooKeeper, a world that follows it, and turns that a test takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from nodepool_ocb.catalogue.code import Hooked, Role
from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.daemon.timers import Timers
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Daemon, Deployment, DeploymentState, Node, NodeRole, Set, State
from nodepool_ocb.model.records import Role as RoleRecord
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb_annealer.hooks import calls, installation, scheduling
from nodepool_ocb_annealer.hooks.hooking import Hooking
from nodepool_ocb_annealer.timer_kinds import Timer

LAB = "lab"
ROLE = "app"
BARCLAMP = "site"
SECONDS = 30.0
NOW = 1000.0  # of a clock that stands still: no wait depends on the load of the machine


class Desk:
    """The context of the hooks of annealer "a"; ``code`` is the code of the roles, by name."""

    identity = "a"

    def __init__(self, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session, self.settings, self.ranking = session, AnnealerSettings(), Ranking("a")
        self.timers: Timers[Timer] = Timers()
        self.registration: Any = SimpleNamespace(record=Daemon(host="h", pid=1, version="0", started=0.0))
        self.code: dict[str, Role] = {}
        self.asked: list[tuple[str, str]] = []  # role and barclamp of each search for code
        self.sent: list[str] = []
        self.refusals: dict[int, OcbError] = {}  # number of a transaction → its answer, in place of ZooKeeper's
        self.unread: list[tuple[str, str]] = []  # paths of attributes, with the reason
        self._posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        monkeypatch.setattr(scheduling, "time", SimpleNamespace(monotonic=lambda: NOW))
        monkeypatch.setattr(calls, "find", self._find)
        monkeypatch.setattr(installation, "find", self._find)
        session.commit([Create(paths.deployment(LAB), Deployment(state=DeploymentState.COMMITTED))])
        session.commit([Create(paths.deployment_roles(LAB))])
        self.world = World()
        self._cache = Cache(session, self.world, lambda: None)
        self._cache.load()
        self.hooking = Hooking(self)  # type: ignore[arg-type]

    def _find(self, name: str, barclamp: str) -> Role | None:
        self.asked.append((name, barclamp))
        return self.code.get(name)

    def read(self) -> None:
        """See the world as it is now."""
        self.session.sync()
        self._cache.refresh()

    # -- of the annealer --

    def post(self, call: Callable[[], None]) -> None:
        self._posted.put(call)

    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None:
        self.sent.append(what)
        refused = self.refusals.get(len(self.sent))
        if refused is None:
            try:
                self.session.commit(changes)
            except OcbError as error:
                refused = error
        self.read()
        then(refused)

    def spoiled(self, path: str, reason: str) -> None:
        self.unread.append((path, reason))

    # -- of a test --

    def brings(self, name: str = ROLE, **methods: Callable[[Role, Hooked], Any]) -> None:
        """The role has this code."""
        self.code[name] = type("Code", (Role,), methods)(name)

    def catalogue(self, *hooks: str, name: str = ROLE, **fields: Any) -> None:
        record = RoleRecord(barclamp=BARCLAMP, jig="noop", hooks=hooks, **fields)
        self.session.commit([Create(paths.role(name), record)])
        self.read()

    def node(self, fqdn: str = "n1", **fields: Any) -> None:
        self.session.commit(
            [
                Create(paths.node(fqdn), Node(deployment=LAB, alive=True, **fields)),
                Create(paths.noderoles(fqdn)),
                Create(paths.fence(fqdn)),
            ]
        )
        self.read()

    def noderole(self, fqdn: str = "n1", role: str = ROLE, state: State = State.TODO, **fields: Any) -> None:
        record = NodeRole.of(state=state, since=0.0, generation=1, deployment=LAB, **fields)
        self.session.commit([Create(paths.noderole(role, fqdn), record)])
        self.read()

    def write(self, path: str, record: Any) -> None:
        znode = self.session.get(path)
        self.session.commit([Create(path, record) if znode is None else Set(path, record, znode.version)])
        self.read()

    def take(self) -> list[Timer]:
        """The timers that are due now or within a minute, which are set no more."""
        return list(self.timers.due(NOW + 60.0))

    def waits(self) -> Mapping[Timer, float]:
        """How long each timer waits, in seconds; they are set no more."""
        now = NOW
        heap = sorted(self.timers._heap)
        found: dict[Timer, float] = {}
        for when, _, key in heap:
            found.setdefault(key, when - now)
        list(self.timers.due(float("inf")))
        return found

    def turn(self) -> None:
        """A thread has answered."""
        self._posted.get(timeout=SECONDS)()

    def run(self) -> None:
        """All that has a hook to run, once."""
        self.hooking.look_at_all()
        for timer in self.take():
            before = len(self.hooking._under_way)
            self.hooking.due(timer.kind, timer.about)
            if len(self.hooking._under_way) > before:
                self.turn()
