"""An annealer's context for its installer. It writes nothing by itself: a test answers each write, and each call of a worker."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.timers import Timers
from nodepool_ocb.engine import claim
from nodepool_ocb.engine.advancing import advance
from nodepool_ocb.engine.run import RunPhase
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import OcbError
from nodepool_ocb.jigs.ssh.boots import BootQuestion
from nodepool_ocb.model.boot import Publisher
from nodepool_ocb.model.installation import Installation, InstallStep
from nodepool_ocb.model.records import Node, NodeRole, Role, State
from nodepool_ocb.provisioning import boot
from nodepool_ocb.provisioning.installation import BootLook
from nodepool_ocb.provisioning.orders import Wish
from nodepool_ocb_annealer.runs.attempts import Attempt, SlotAnswer
from nodepool_ocb_annealer.runs.installing import Installer
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from tests.engine.worlds import put, world

N: Final = "n1.example.com"
ADMIN: Final = "admin.example.com"
FORMER_KEY, NEW_KEY = "ssh-ed25519 OLD", "ssh-ed25519 NEW"
BEFORE, INSTALLER, AFTER = "boot-before", "boot-installer", "boot-after"
SESSION: Final = 7


class BootingMachine:
    """A jig whose machine answers as the test says; ``questions`` has the node and the question of each look."""

    attaches, state_dir = True, "/state"

    def __init__(self) -> None:
        self.answer: BootLook | Exception = BootLook(why="silence")
        self.questions: list[tuple[Node, BootQuestion]] = []

    def look(self, fqdn: str, node: Node, question: BootQuestion) -> BootLook:
        assert fqdn == N
        self.questions.append((node, question))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class InstallDesk:
    """One node whose installation this annealer continues; ``jig``: of its role."""

    def __init__(self, jig: str = "install") -> None:
        self.world, self.timers = world(), Timers[Timer]()
        self.settings, self.identity = AnnealerSettings(dead_probe_seconds=60.0), "a"
        self.session: Any = SimpleNamespace(now=time.time, trusted=True, id=SESSION)
        self.secrets: Any = SimpleNamespace()
        self.machine = BootingMachine()
        self.jigs: Any = {jig: self.machine}
        self.sent: list[tuple[list[Any], Any]] = []
        self.answers: list[SlotAnswer] = []
        self._posted: SimpleQueue[Any] = SimpleQueue()
        self.world.put(Stored(Role(barclamp="p", jig=jig, flags=("destructive",)), 0), "os")
        vertex = put(self.world, f"os@{N}", State.TODO)
        self.node(alive=True, allow_install=True, host_keys=(FORMER_KEY,), macs=("52:54:00:12:34:56",))
        grant = claim.take(self.world, vertex, "a", "run1", time.time())
        self.world.put_noderole(N, "os", grant.record, 8)
        self.attempt = Attempt(grant, self.world.roles["os"].record, SESSION, self.jigs)
        self.attempt.state = replace(self.attempt.state, phase=RunPhase.BOOTING)
        self.installer = Installer(self, lambda _, answer: self.answers.append(answer))  # type: ignore[arg-type]

    # -- the parts of a context --

    def post(self, call: Any) -> None:
        self._posted.put(call)

    def send(self, changes: list[Any], then: Any, _: str) -> None:
        self.sent.append((changes, then))

    # -- the world --

    def node(self, **fields: Any) -> None:
        """Change the record of the node."""
        before = self.world.nodes[N].record
        self.world.put_node(N, replace(before or Node(), **fields), 5)

    def holds(self, step: InstallStep, **fields: Any) -> None:
        """The node has this installation; of this run and generation, where the fields say nothing else."""
        now, grant = time.time(), self.attempt.grant
        known: dict[str, Any] = {
            "noderole": grant.vertex.name, "generation": grant.record.generation, "run": grant.run, "epoch": grant.epoch,
            "since": now, "started": now, "deadline": now + 900.0, "nonce": "0" * 32, "token_digest": "0" * 64,
            "boot_id": BEFORE, "installer_boot_id": INSTALLER, "host_key": NEW_KEY, "reboot": "reboot",
            "boot_file": "/boot_id", "image": "i", "disk": "/dev/sda",
        }  # fmt: skip
        self.world.put(Stored(Installation(step=step, **(known | fields)), 3), N)

    @property
    def record(self) -> Installation:
        found: Installation = self.world.of(Installation)[N].record
        return found

    def server(self, log: str = "") -> None:
        """A living server that has published nothing."""
        self.world.put_node(ADMIN, Node(admin=True, alive=True), 0)
        self.world.put_noderole(ADMIN, boot.DHCP, NodeRole.of(state=State.ACTIVE, since=0.0), 0)
        self.world.put(Stored(Publisher(directory="d", log=log), 0), f"{boot.DHCP}@{ADMIN}")

    def begins(self, wish: Wish | None = None) -> None:
        """The run begins, or this annealer takes it over."""
        self.attempt.wish = wish
        self.installer.begin(self.attempt)

    def looks(self) -> None:
        self.installer.look(self.attempt)

    # -- the time --

    def turn(self, seconds: float = 10.0) -> None:
        """Make the next call that a worker has posted."""
        try:
            self._posted.get(timeout=seconds)()
        except Empty:
            pytest.fail("no worker has posted a call")

    @property
    def idle(self) -> bool:
        """Whether no worker has posted a call."""
        return self._posted.empty()

    def written(self, refused: OcbError | None = None) -> list[Any]:
        """The oldest write is done, or refused; gives its changes."""
        changes, then = self.sent.pop(0)
        if refused is None:
            advance(self.world, changes)
        then(refused)
        return list(changes)

    def waits(self) -> bool:
        """Whether a timer continues the installation later; it is removed."""
        found = list(self.timers.due(time.monotonic() + self.settings.dead_probe_seconds + 1.0))
        assert set(found) <= {Timer(TimerKind.INSTALL, N)}
        return bool(found)

    def leaves_turn(self) -> None:
        """The run is in another phase now."""
        self.attempt.state = replace(self.attempt.state, phase=RunPhase.REPORTING)

    def close(self) -> None:
        self.installer.close()
