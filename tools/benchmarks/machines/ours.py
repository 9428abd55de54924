"""Our side of each round: real machines, and the world of one annealer at a time that works on them."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from benchmarks import convergence, ensemble
from benchmarks.machines.steps import Round, Step
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import Node, NodeRole, Role, Run
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import DaemonProcess, cpu_seconds
from nodepool_ocb.testing.zookeeper import counters
from nodepool_ocb.testing.zookeeper.server import Server

AT_ONCE: Final = 20  # machines, for every side
SCRIPT: Final = "true"
READ_SECONDS: Final = 20.0
QUIET_SECONDS: Final = 0.2  # without a request: the annealer has read all changes


class OurSide:
    """One world for all rounds: a machine never obeys a cluster that has begun to count anew."""

    def __init__(
        self, server: Server, settings: ZooKeeperSettings, session: Session, grid: Grid, sections: dict[str, Any]
    ) -> None:
        self.server, self.session, self.grid = server, session, grid
        self._settings, self._sections = settings, sections
        grid.write(session)

    @contextmanager
    def annealer(self) -> Iterator[DaemonProcess]:
        """A new one, which is started with the first round."""
        with convergence.annealer(self._settings, self._sections) as process:
            yield process

    def round(self, process: DaemonProcess) -> Round:
        """Do all steps once more. The clock starts when the annealer knows its machines."""
        self.rewind(process)
        return self.again(process)

    def rewind(self, process: DaemonProcess) -> None:
        """Put the world back to its begin, and return when the annealer has read all of it."""
        self.grid.rewind(self.session)
        if not process.running():
            process.start()
        before, deadline = -1, time.monotonic() + READ_SECONDS
        while (now := counters.requests(self.server, self.session.id)) != before and time.monotonic() < deadline:
            before = now
            time.sleep(QUIET_SECONDS)

    def again(self, process: DaemonProcess) -> Round:
        """Do all steps; the world was put back to its begin."""
        before, began = cpu_seconds(self.server.pid), self.session.now()
        done = convergence.run(self.server, self.session, process, self.grid)
        return Round(
            seconds=done.seconds,
            steps=self._steps(began),
            cpu_seconds=done.cpu_seconds + cpu_seconds(self.server.pid) - before,
            resident_bytes=process.resident_bytes,
            threads=threads(process.pid),
            sockets=sockets(process.pid),
        )

    def _steps(self, began: float) -> list[list[Step]]:
        """From the records of the newest runs, by ZooKeeper's clock."""
        names = list(self.grid.paths())
        records = [codec.decode(NodeRole, znode) for znode in self.session.get_many(names) if znode is not None]
        runs = [f"{name}/runs/{record.run}" for name, record in zip(names, records, strict=True)]
        found = [codec.decode(Run, znode) for znode in self.session.get_many(runs) if znode is not None]
        steps = [(run.started - began, run.ended - began) for run in found]
        each = self.grid.depth * self.grid.lanes
        if len(steps) != len(names):
            raise RuntimeError(f"{len(names) - len(steps)} of {len(names)} steps have no record of their run")
        return [steps[start : start + each] for start in range(0, len(steps), each)]


@contextmanager
def our_side(
    server: Server, farm: Farm, grid: Grid, machines: Sequence[tuple[str, Node]] = (), **sections: dict[str, Any]
) -> Iterator[OurSide]:
    """A world of its own for a farm, on a server that others may use.

    ``grid`` has the shape and the role; ``machines`` are the records, where they differ from those of the farm.
    """
    settings = ensemble.settings(server)
    records = machines or farm.records()
    grid = replace(grid, nodes=len(records), machines=records)
    with ensemble.session(settings) as session:
        defaults = {"annealer": {"slots": AT_ONCE, "probe_seconds": 3600.0}, "ssh": farm.settings()}
        yield OurSide(server, settings, session, grid, defaults | sections)


@contextmanager
def farm(count: int) -> Iterator[Farm]:
    """Machines in a folder that goes with them."""
    with tempfile.TemporaryDirectory(prefix="ocb-") as directory, Farm(count, Path(directory)) as machines:
        yield machines


def forget_runner(farm: Farm, count: int) -> None:
    """The next step installs the runner on each of the machines."""
    for machine in range(count):
        farm.lose_state(machine)


def scripted(script: str, **more: Any) -> Role:
    """The role of a step."""
    return Role(barclamp="bench", jig="script", script=script, **more)


def threads(pid: int) -> int:
    """The threads of a process."""
    found = re.search(r"^Threads:\s+(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None, "the kernel gives the number of threads"
    return int(found[1])


def sockets(pid: int) -> int:
    """The open sockets of a process."""
    count = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # it was closed meanwhile
            count += link.readlink().name.startswith("socket:")
    return count
