"""A thousand requests over two hundred static slots: requests a second, beside Nodepool's launcher.

All requests are written at the beginning. Each fulfilled request has a user, who takes its node, uses it for no time, and
returns it. Up to ``USERS`` do so side by side: one alone waits for the server's disk most of the time, and the rate would be
its own. Nodepool serves fewer requests, since it needs about a second for each slot that returns. Its rate is extrapolated:
the first requests find ready slots, and each further request is assumed to take as long as the others that reused a slot.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from statistics import median
from typing import Final

from benchmarks import peers
from benchmarks.figure import Figure, Plan
from benchmarks.pools import sides
from benchmarks.pools.rack import Rack
from benchmarks.pools.requester import Fulfilled, Requester
from benchmarks.pools.sides import Stage

MACHINES: Final = 4
SLOTS: Final = 50  # of each machine
REQUESTS: Final = 1000
OF_NODEPOOL: Final = 300
MOST_ROUNDS: Final = 3
USERS: Final = 20  # at a time
READY_SECONDS: Final = 400.0
SERVED_SECONDS: Final = 120.0  # between two fulfilled requests


def measure(plan: Plan) -> Iterator[Figure]:
    """Requests a second; ours the median of some rounds, Nodepool's of one."""
    slots, requests, of_nodepool = plan.size(SLOTS), plan.size(REQUESTS), plan.size(OF_NODEPOOL)
    with sides.stage() as stage, Rack(MACHINES, slots, stage.folder / "farm") as rack:
        other = _nodepool(stage, rack, of_nodepool, requests)
        rates = _ours(stage, rack, requests, min(plan.rounds, MOST_ROUNDS))
    each = median(rates)
    note = f"Nodepool: extrapolated from {of_nodepool} requests; ours: {min(rates):.3g} to {max(rates):.3g}"
    yield Figure(
        name="queue",
        what=f"{requests:,} requests over {rack.size} static slots, each taken and returned",
        unit="requests/s",
        ours=each,
        other=other,
        beside="requests/s, Nodepool 11",
        ratio=other and each / other,
        bound="at least",
        target=10.0,
        note=f"{note if other else peers.MISSING}; load {os.getloadavg()[0]:.1f}",
    )


def _ours(stage: Stage, rack: Rack, requests: int, rounds: int) -> list[float]:
    with sides.world(stage) as (settings, session):
        requester = Requester(session)
        with sides.ours(settings, stage.folder / "ours", rack):
            return [requests / served(requester, rack, requests)[-1] for _ in range(rounds)]


def _nodepool(stage: Stage, rack: Rack, requests: int, of: int) -> float | None:
    """The rate with ``of`` requests, extrapolated from ``requests``; None if it cannot be installed."""
    if peers.environment(".venv-bench-nodepool", peers.OF_NODEPOOL) is None:
        return None
    with sides.world(stage) as (settings, session):
        requester = Requester(session)
        with sides.nodepool(stage, settings, rack.document):
            return of / extrapolated(served(requester, rack, requests), rack.size, of)


def served(requester: Requester, rack: Rack, requests: int) -> list[float]:
    """For each request the seconds from the begin to the return of its node, in order; all slots are ready before."""
    requester.await_free(rack.size, READY_SECONDS)
    began, uses = time.perf_counter(), list[Future[float]]()

    def use(done: Fulfilled) -> float:
        requester.use(done)
        return time.perf_counter() - began

    left = set(requester.ask_many(requests))
    with ThreadPoolExecutor(USERS) as users:
        while left:
            found = requester.next(left, SERVED_SECONDS)
            left -= {done.id for done in found}
            uses += [users.submit(use, done) for done in found]
    return sorted(each.result() for each in uses)


def extrapolated(times: Sequence[float], slots: int, requests: int) -> float:
    """Seconds for so many requests, from the times of fewer. Those after the first ``slots`` ones wait for a returned slot.

    >>> extrapolated([0.1, 0.2, 1.2, 2.2], slots=2, requests=10)
    8.2
    """
    first = times[slots - 1]
    return first + (times[-1] - first) / (len(times) - slots) * (requests - slots)
