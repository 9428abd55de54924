"""The requests of an idle annealer to ZooKeeper: no writes, and almost no reads beside the pings of its session.

A relay in front of the server counts the requests by their kind, so that pings are known apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from benchmarks import ensemble
from benchmarks.convergence import annealer
from benchmarks.figure import Figure, Plan
from benchmarks.relay import PING, Relay, Requests
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.zookeeper import counters

GRID: Final = Grid(nodes=200, lanes=5, depth=10, active=True)
SECONDS: Final = 90.0  # three sweeps


def measure(plan: Plan) -> Iterator[Figure]:
    """Writes, requests a second beside pings, and pings a second."""
    grid, seconds = GRID.of(plan.size(GRID.nodes)), plan.size(int(SECONDS), least=35)
    seen = Requests()
    with ensemble.server() as server, Relay([("127.0.0.1", server.port)], tap=seen) as relay:
        settings = ensemble.settings(server)
        with ensemble.session(settings) as session:
            grid.write(session)
            grid.start(session)
        behind = replace(settings, hosts=settings.hosts.replace(str(server.port), str(relay.ports[0]), 1))
        with annealer(behind) as process:
            process.start()
            writes, cpu, before = counters.transactions(server), process.cpu_seconds, seen.seen.copy()
            time.sleep(seconds)
            asked = seen.seen - before
            writes, cpu = counters.transactions(server) - writes, process.cpu_seconds - cpu
    pings = asked.pop(PING, 0)
    what = f"an annealer that knows {grid.size:,} noderoles, {seconds} s"
    yield Figure(
        name="idle", what=f"{what}: writes", unit="writes", ours=writes, ratio=writes, bound="at most", target=0
    )
    yield Figure(
        name="idle",
        what=f"{what}: requests, pings not counted",
        unit="requests/s",
        ours=(rate := asked.total() / seconds),
        ratio=rate,
        bound="at most",
        target=0.05,
        note=f"{', '.join(f'{count} {kind}' for kind, count in asked.items()) or 'none'}; {cpu / seconds:.2%} of a core",
    )
    yield Figure(name="idle", what=f"{what}: pings of its session", unit="pings/s", ours=pings / seconds)
