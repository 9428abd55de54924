"""The requests of an idle annealer to ZooKeeper: no writes, and almost no reads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from benchmarks import ensemble
from benchmarks.convergence import annealer
from benchmarks.figure import Figure, Plan
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.zookeeper import counters

GRID: Final = Grid(nodes=200, lanes=5, depth=10, active=True)
SECONDS: Final = 70.0  # two sweeps and more


def measure(plan: Plan) -> Iterator[Figure]:
    """Writes, and requests a second, pings and sweeps included."""
    grid, seconds = GRID.of(plan.size(GRID.nodes)), plan.size(int(SECONDS), least=35)
    with ensemble.server() as server:
        settings = ensemble.settings(server)
        with ensemble.session(settings) as session:
            grid.write(session)
            grid.start(session)
        with annealer(settings) as process:
            process.start()
            writes, requests, cpu = counters.transactions(server), counters.requests(server), process.cpu_seconds
            time.sleep(seconds)
            writes = counters.transactions(server) - writes
            requests = counters.requests(server) - requests
            cpu = process.cpu_seconds - cpu
    what = f"an annealer that knows {grid.size:,} noderoles, {seconds} s"
    yield Figure(
        name="idle", what=f"{what}: writes", unit="writes", ours=writes, ratio=writes, bound="at most", target=0
    )
    yield Figure(
        name="idle",
        what=f"{what}: requests",
        unit="requests/s",
        ours=requests / seconds,
        ratio=requests / seconds,
        bound="at most",
        target=2.0,
        note=f"pings and sweeps included; {cpu / seconds:.2%} of a core",
    )
