"""Several annealers at the same work: the rate and the transactions beside those of one, and the CPU of foreign noderoles."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median
from typing import Final

from benchmarks import ensemble
from benchmarks.convergence import TIMEOUT_SECONDS, Convergence, annealer
from benchmarks.figure import Figure, Plan
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.processes import await_that
from nodepool_ocb.testing.zookeeper import counters
from nodepool_ocb.testing.zookeeper.server import Server

GRID: Final = Grid(nodes=1000, lanes=5, depth=10)
RATES: Final = {2: 0.9, 4: 0.8}  # number of annealers → the least part of the rate of one, on two cores
FOREIGN_US: Final = 30.0
TRANSACTIONS: Final = 1.2  # of those of one


def measure(plan: Plan) -> Iterator[Figure]:
    """Noderoles a second, transactions a noderole, and microseconds for a noderole that another annealer works on."""
    grid = GRID.of(nodes=plan.size(GRID.nodes))
    seen: dict[int, list[Convergence]] = {count: [] for count in (1, *RATES)}
    with ensemble.server() as server:
        for _ in range(plan.rounds):
            for count, found in seen.items():
                found.append(_together(server, grid, count))
    what = f"{grid.size:,} noop noderoles on {grid.nodes:,} nodes"
    one = median(each.rate for each in seen[1])
    wrote = {count: median(each.transactions / grid.size for each in found) for count, found in seen.items()}
    cpu = {count: median(each.cpu_seconds / grid.size * 1e6 for each in found) for count, found in seen.items()}
    for count, least in RATES.items():
        rate = median(each.rate for each in seen[count])
        yield Figure(
            name="sharing", what=f"{what}, {count} annealers", unit="noderoles/s", ours=rate, other=one,
            beside="/s, one annealer", ratio=rate / one, bound="at least", target=least,
            note=f"{cpu[count]:.0f} us of CPU each in all, one annealer {cpu[1]:.0f}",
        )  # fmt: skip
        yield Figure(
            name="sharing", what=f"transactions a noderole, {count} annealers", unit="a noderole", ours=wrote[count],
            other=wrote[1], beside="one annealer", ratio=wrote[count] / wrote[1], bound="at most", target=TRANSACTIONS,
        )  # fmt: skip
    most = max(RATES)
    foreign = (cpu[most] - cpu[1]) / (most - 1)
    yield Figure(
        name="sharing", what=f"CPU for a noderole of another annealer, {most} annealers", unit="us", ours=foreign,
        ratio=foreign, bound="at most", target=FOREIGN_US,
    )  # fmt: skip


def _together(server: Server, grid: Grid, count: int) -> Convergence:
    settings = ensemble.settings(server)
    with ensemble.session(settings) as session, ExitStack() as stack:
        grid.write(session)
        processes = [stack.enter_context(annealer(settings)) for _ in range(count)]
        for process in processes:
            process.start()
        finished = grid.finished(session)
        transactions, cpu = counters.transactions(server), sum(each.cpu_seconds for each in processes)
        began = time.perf_counter()
        grid.start(session)
        alive = lambda: all(each.running() for each in processes)  # noqa: E731
        await_that(finished, TIMEOUT_SECONDS, "every noderole is ACTIVE", alive=alive)
        return Convergence(
            size=grid.size,
            seconds=time.perf_counter() - began,
            transactions=counters.transactions(server) - transactions - 1,
            cpu_seconds=sum(each.cpu_seconds for each in processes) - cpu,
        )
