"""One annealer process makes a whole grid ACTIVE, and everything about it is counted."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import ensemble
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.processes import DaemonProcess, await_that
from nodepool_ocb.testing.zookeeper import counters
from nodepool_ocb.testing.zookeeper.server import Server

TIMEOUT_SECONDS = 600.0


class Convergence(msgspec.Struct, frozen=True):
    """From the commit of the deployment to the last noderole ACTIVE."""

    size: int
    seconds: float
    transactions: int  # all that the server saw meanwhile, refused ones too, but for the commit
    cpu_seconds: float  # of the annealer's process

    @property
    def rate(self) -> float:
        """Noderoles a second."""
        return self.size / self.seconds


def converge(server: Server, grid: Grid, sections: Mapping[str, Any] | None = None) -> Convergence:
    """Write the grid, start an annealer, let it read, commit, wait."""
    settings = ensemble.settings(server)
    with ensemble.session(settings) as session, annealer(settings, sections) as process:
        grid.write(session)
        process.start()
        return run(server, session, process, grid)


@contextmanager
def annealer(settings: ZooKeeperSettings, sections: Mapping[str, Any] | None = None) -> Iterator[DaemonProcess]:
    """An annealer, not started yet, with a directory that goes when the block ends."""
    with tempfile.TemporaryDirectory(prefix="nodepool-ocb-bench-") as directory:
        process = DaemonProcess(settings, Path(directory), sections)
        try:
            yield process
        finally:
            process.close()


def run(server: Server, session: Session, process: DaemonProcess, grid: Grid) -> Convergence:
    """Commit a grid that was written, and that the annealer has read; return when all of it is ACTIVE."""
    finished = grid.finished(session)
    transactions, cpu = counters.transactions(server), process.cpu_seconds
    began = time.perf_counter()
    grid.start(session)
    await_that(finished, TIMEOUT_SECONDS, "every noderole is ACTIVE", alive=process.running)
    return Convergence(
        size=grid.size,
        seconds=time.perf_counter() - began,
        transactions=counters.transactions(server) - transactions - 1,
        cpu_seconds=process.cpu_seconds - cpu,
    )
