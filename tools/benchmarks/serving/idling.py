"""The requests of an idle API server to ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from benchmarks import ensemble
from benchmarks.figure import Figure, Plan
from benchmarks.serving import rack
from benchmarks.serving.listing import GRID
from nodepool_ocb.testing.zookeeper import counters

SECONDS: Final = 70.0  # two sweeps and more


def measure(plan: Plan) -> Iterator[Figure]:
    """Writes, and requests a second, pings and sweeps included."""
    grid, seconds = GRID.of(plan.size(GRID.nodes, least=10)), plan.size(int(SECONDS), least=35)
    with ensemble.server() as server:
        settings = ensemble.settings(server)
        with ensemble.session(settings) as session:
            grid.write(session)
        with rack.served(settings):
            writes, requests = counters.transactions(server), counters.requests(server)
            time.sleep(seconds)
            writes, requests = counters.transactions(server) - writes, counters.requests(server) - requests
    what = f"an API server that knows {grid.size:,} noderoles, {seconds} s"
    yield Figure(
        name="rest", what=f"{what}: writes", unit="writes", ours=writes, ratio=writes, bound="at most", target=0
    )
    yield Figure(
        name="rest",
        what=f"{what}: requests",
        unit="requests/s",
        ours=requests / seconds,
        ratio=requests / seconds,
        bound="at most",
        target=1.0,
        note="pings and sweeps included",
    )
