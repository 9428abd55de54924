"""A hundred launches a minute, each with a node of /ocb that gets a role, beside an annealer that works all the time.

The grid of the annealer is converged again and again. Rounds with launches and rounds without launches alternate.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import yaml

from benchmarks import ensemble
from benchmarks.convergence import annealer, run
from benchmarks.figure import Figure, Plan
from benchmarks.machines.sides import address
from benchmarks.pools.rack import LABEL
from benchmarks.pools.requester import Requester
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Node, Role
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import LAUNCHER, DaemonProcess
from nodepool_ocb.testing.zookeeper.server import Server

GRID: Final = Grid(nodes=200, lanes=5, depth=10)
A_MINUTE: Final = 100
CLOUDS: Final = 20  # more than launches are under way
SECONDS: Final = 30.0  # of each round
ROLE: Final = "leased"
LAUNCHED_SECONDS: Final = 60.0


class Launches:
    """Asks for a node at an even pace on a thread of its own, and returns each: ``done`` counts them."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self.done = 0
        self.fault: BaseException | None = None
        self._settings = settings
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="launches", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the launches under way. Raises the exception that ended the thread."""
        self._stop.set()
        self._thread.join(2 * LAUNCHED_SECONDS)
        if self.fault is not None:
            raise self.fault

    def _run(self) -> None:
        try:
            with Session(self._settings) as session:
                self._launch(Requester(session))
        except BaseException as fault:
            self.fault = fault

    def _launch(self, requester: Requester) -> None:
        pause, waiting, due = 60.0 / A_MINUTE, set[str](), time.monotonic()
        while waiting or not self._stop.is_set():
            if not self._stop.is_set() and time.monotonic() >= due:
                waiting.add(requester.ask()[0])
                due += pause
            for each in requester.now(waiting, pause / 4):
                waiting.discard(each.id)
                requester.use(each)
                self.done += 1


class _Shares:
    """Noderoles a second of an annealer, with and without launches."""

    def __init__(self, server: Server, settings: ZooKeeperSettings, session: Session, process: DaemonProcess) -> None:
        self._server, self._settings, self._session, self._process = server, settings, session, process
        self.launched = 0
        self.written = 0  # versions of /ocb/structure

    def rate(self, grid: Grid, seconds: float, launches: bool) -> float:
        before = self._structure()
        asking = Launches(self._settings)
        if launches:
            asking.start()
        took, size, ends = 0.0, 0, time.monotonic() + seconds
        while time.monotonic() < ends:
            grid.rewind(self._session)
            took += run(self._server, self._session, self._process, grid).seconds
            size += grid.size
        if launches:
            asking.stop()
            self.launched += asking.done
            self.written += self._structure() - before
        return size / took

    def _structure(self) -> int:
        znode = self._session.get(paths.STRUCTURE)
        assert znode is not None, "the grid was written"
        return znode.version


def measure(plan: Plan) -> Iterator[Figure]:
    """Writes of the structure for each launch, and the share of the annealer's rate that is left."""
    grid, seconds = GRID.of(plan.size(GRID.nodes)), plan.size(int(SECONDS), least=5)
    with (
        tempfile.TemporaryDirectory(prefix="nodepool-ocb-bench-") as name,
        ensemble.server() as server,
        Farm(CLOUDS, Path(name, "farm")) as farm,
    ):
        settings = ensemble.settings(server)
        with ensemble.session(settings) as session, annealer(settings, {"ssh": farm.settings()}) as process:
            grid.write(session)
            session.commit([Create(paths.role(ROLE), Role(barclamp="bench", jig="noop"))])
            process.start()
            with _launcher(settings, Path(name), farm):
                shares = _Shares(server, settings, session, process)
                shares.rate(grid, 1.0, launches=True)
                shares.launched = shares.written = 0
                rounds = [
                    (shares.rate(grid, seconds, launches=False), shares.rate(grid, seconds, launches=True))
                    for _ in range(plan.rounds)
                ]
    alone, beside = (median(each) for each in zip(*rounds, strict=True))
    what = f"{A_MINUTE} launches a minute with a role, beside a working annealer"
    yield Figure(
        name="enrol",
        what=f"{what}: writes of the structure",
        unit="a launch",
        ours=(each := shares.written / shares.launched),
        ratio=each,
        bound="at most",
        target=2.0,
        note=f"{shares.launched} launches: one write creates nodes of /ocb, and one deletes them",
    )
    yield Figure(
        name="enrol",
        what=f"{what}: its rate",
        unit="noderoles/s",
        ours=beside,
        other=alone,
        beside="noderoles/s without launches",
        ratio=median(with_launches / without for without, with_launches in rounds),
        bound="at least",
        target=0.7,
        note=f"launcher, annealer and server share {os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}",
    )


@contextmanager
def _launcher(settings: ZooKeeperSettings, folder: Path, farm: Farm) -> Iterator[DaemonProcess]:
    clouds = [_cloud(folder, name.partition(".")[0], node) for name, node in farm.records()]
    document = {"labels": [{"name": LABEL, "roles": [ROLE]}], "providers": clouds}
    (folder / "nodepool.yaml").write_text(yaml.safe_dump(document))
    with DaemonProcess(settings, folder, {"admin_domain": "example.com"}, LAUNCHER) as process:
        yield process


def _cloud(folder: Path, name: str, machine: Node) -> dict[str, Any]:
    """A provider with one machine at a time, since two nodes of /ocb never have the same address."""
    host, port = address(machine.addresses[0])
    options = {"directory": str(folder / name), "address": host, "port": port, "host-keys": list(machine.host_keys)}
    return {
        "name": name,
        "driver": "fake",
        "fake-cloud": options,
        "cloud-images": [{"name": "debian", "username": machine.user}],
        "pools": [{"name": "main", "max-servers": 1, "labels": [{"name": LABEL, "cloud-image": "debian"}]}],
    }
