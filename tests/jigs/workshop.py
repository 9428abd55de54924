"""A machine with a real sshd, and annealers' ends to talk to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from nodepool_ocb.config import Settings, SshSettings, TasksSettings
from nodepool_ocb.jigs import Order, Outcome
from nodepool_ocb.jigs.script import ScriptJig
from nodepool_ocb.jigs.ssh import protocol
from nodepool_ocb.jigs.ssh.pool import Pool
from nodepool_ocb.model.records import Role
from nodepool_ocb.testing.looks import rest
from nodepool_ocb.testing.machines import Event, Farm

PATIENCE_SECONDS = 60.0
OUTCOME_SECONDS = 400.0


def until(condition: Callable[[], Any]) -> Any:
    """What the condition gives once that is true; fails after the patience of a slow machine."""
    looked = time.monotonic()
    deadline = looked + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true"
        looked = rest(looked)
    return found


@contextmanager
def other_runner(folder: Path, changes: Mapping[str, str]) -> Iterator[None]:
    """Machines get a runner with these texts in the place of others, each of which stands in it once.

    ``folder``: a new one, for the files of that runner.
    """
    before, folder_before = protocol.files, protocol.files(protocol.__package__)
    folder.mkdir()
    for file in protocol.PROGRAMS.values():
        text = folder_before.joinpath(file).read_text()
        for old, new in changes.items() if file == "runner.sh" else ():
            assert text.count(old) == 1, f"this stands once in the runner: {old}"
            text = text.replace(old, new)
        (folder / file).write_text(text)
    try:
        protocol.files = lambda _: folder  # type: ignore[assignment]
        protocol.installer.cache_clear()
        yield
    finally:
        protocol.files = before
        protocol.installer.cache_clear()


class Machine:
    """The farm's only machine, and how to give it orders."""

    def __init__(self, farm: Farm, log: Path) -> None:
        self.farm, self.log = farm, log
        self.fqdn, self.node = farm.records()[0]
        self.state = farm.state_dir(self.fqdn)

    def settings(self, **ssh: Any) -> SshSettings:
        return msgspec.convert(self.farm.settings() | {"connect_timeout_seconds": 5.0} | ssh, SshSettings)

    def order(self, script: str, *, flags: tuple[str, ...] = (), role: str = "ntp", **fields: Any) -> Order:
        fields = {"generation": 1, "epoch": 1, "attributes": {}, "log": self.log, "timeout_seconds": 300.0} | fields
        return Order(
            node=self.fqdn,
            record=fields.pop("record", self.node),
            role=role,
            definition=Role(barclamp="b", jig="script", script=script, flags=flags),
            run=fields.pop("run", f"{fields['epoch']:010d}-aaaaaa"),
            **fields,
        )

    def task(self, parameters: dict[str, Any], *, uid: str = "1", noop: bool = False, **fields: Any) -> Order:
        """An order of a run of a task list; ``differing``: the parameters that differ on this node."""
        attributes = {
            "task": {"parameters": fields.pop("differing", {})},
            "astute": {"uid": uid, "fqdn": self.fqdn},
            "tasks": {"run": "0000000003", "deployment": "lab", "noop": noop, "facts_file": "/etc/astute.yaml"},
        }
        order = self.order("", attributes=attributes, **fields)
        return replace(order, definition=Role(barclamp="tasks", jig="task", flags=("task",), parameters=parameters))

    @property
    def history(self) -> list[Event]:
        return self.farm.history(0)

    def events(self, *kinds: str) -> list[str]:
        return [event.event for event in self.history if not kinds or event.event in kinds]

    @staticmethod
    def events_in(state: Path, *kinds: str) -> list[str]:
        """As ``events``, of any state directory."""
        file = state / "history"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [word for line in lines if (word := line.split()[2]) in kinds]

    def run_file(self, name: str, key: str = "ntp@1") -> Path:
        return self.state / "runs" / f"{key}.{name}"

    def leave_out(self, programs: Path, *names: str) -> None:
        """From here on the machine has what is in /usr/bin but these; ``programs``: a folder to be made for that."""
        programs.mkdir()
        for file in Path("/usr/bin").iterdir():
            if file.name not in names:
                (programs / file.name).symlink_to(file)
        config = self.state.parent / "sshd_config"
        config.write_text(config.read_text().replace("SetEnv ", f"SetEnv PATH={programs} "))
        self.farm.kill(0)
        self.farm.start(0)

    def forget_boot(self) -> None:
        """As after a reboot: what ran last ran under another boot id."""
        current = self.state / "current"
        current.write_text(current.read_text().partition("\n")[0].rpartition(" ")[0] + " another-boot\n")


class Annealer:
    """One annealer's jig, with connections of its own."""

    def __init__(
        self, settings: SshSettings, jig: type[ScriptJig] = ScriptJig, sources: tuple[str, ...] = ("/",)
    ) -> None:
        """``sources``: the directories of this host from which tasks may read."""
        self.jig = jig(Settings(ssh=settings, tasks=TasksSettings(sources=sources)))
        self.jig._pool = Pool(settings)  # in one process annealers would share it
        self.stop = threading.Event()

    def run(self, order: Order) -> Outcome:
        return self.jig.run(order, self.stop)

    def begin(self, order: Order) -> Callable[[], Outcome]:
        """Run it in a thread; call what is given back to wait for the outcome."""
        outcomes: list[Outcome] = []
        thread = threading.Thread(target=lambda: outcomes.append(self.jig.run(order, self.stop)), daemon=True)
        thread.start()

        def outcome() -> Outcome:
            thread.join(OUTCOME_SECONDS)
            assert outcomes, "the run has no outcome"
            return outcomes[0]

        return outcome
