"""From request to fulfilled, for a static node that is ready: our launcher, Nodepool's, and a stand-in without rules.

All three run during the whole measurement, on the same machines and the same server. One requester asks each of them in turn.
Its pauses have different lengths, so that no launcher is asked in step with its own interval.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median
from typing import Final

from benchmarks import peers
from benchmarks.figure import Figure, Plan, interleaved
from benchmarks.pools import sides
from benchmarks.pools.rack import Rack
from benchmarks.pools.requester import Requester
from benchmarks.pools.sides import Stage

MACHINES: Final = 4
SLOTS: Final = 10  # of each machine
TIMES: Final = 20  # a round
OF_NODEPOOL: Final = 3  # a round: seconds each
READY_SECONDS: Final = 300.0  # until all slots are ready
PATIENCE_SECONDS: Final = 60.0  # for one request


def measure(plan: Plan) -> Iterator[Figure]:
    """Milliseconds, the median of the rounds' medians."""
    times, of_nodepool = plan.size(TIMES, least=5), plan.size(OF_NODEPOOL)
    with ExitStack() as stack:
        stage = stack.enter_context(sides.stage())
        rack = stack.enter_context(Rack(MACHINES, SLOTS, stage.folder / "farm"))
        ours, bare = _ours_and_bare(stack, stage, rack, times * (plan.rounds + 1))
        measured = {"ours": lambda: _median(ours, times), "bare": lambda: _median(bare, times)}
        if peers.environment(".venv-bench-nodepool", peers.OF_NODEPOOL) is not None:
            nodepool = _nodepool(stack, stage, rack)
            measured["nodepool"] = lambda: _median(nodepool, of_nodepool)
        took = interleaved(plan.rounds, measured)
    load = f"load {os.getloadavg()[0]:.1f}"
    for side, beside, target in (
        ("nodepool", "ms, Nodepool 11", 0.1),
        ("bare", "ms, a launcher without rules (kazoo)", 2.0),
    ):
        other = took.get(side)
        yield Figure(
            name="hand-out",
            what="from request to fulfilled for a ready static node, median",
            unit="ms",
            ours=took["ours"] * 1e3,
            other=other and other * 1e3,
            beside=beside,
            ratio=other and took["ours"] / other,
            bound="at most",
            target=target,
            note=load if other else peers.MISSING,
        )


def _ours_and_bare(stack: ExitStack, stage: Stage, rack: Rack, nodes: int) -> tuple[Requester, Requester]:
    """The stand-in gets records like ours, as many as it will hand out."""
    settings, session = stack.enter_context(sides.world(stage))
    ours = Requester(session)
    stack.enter_context(sides.ours(settings, stage.folder / "ours", rack))
    ours.await_free(rack.size, READY_SECONDS)
    settings, session = stack.enter_context(sides.world(stage))
    bare = Requester(session)
    bare.copy_nodes(ours, nodes)
    stack.enter_context(sides.bare(settings, rack))
    return ours, bare


def _nodepool(stack: ExitStack, stage: Stage, rack: Rack) -> Requester:
    settings, session = stack.enter_context(sides.world(stage))
    requester = Requester(session)
    stack.enter_context(sides.nodepool(stage, settings, rack.document))
    requester.await_free(rack.size, READY_SECONDS)
    return requester


def _median(requester: Requester, times: int) -> float:
    """Seconds from the begin of the request's write to the event of its fulfilment."""
    took = []
    for number in range(times):
        time.sleep(0.05 + number * 3 % 7 * 0.04)
        id, began = requester.ask()
        (done,) = requester.next([id], PATIENCE_SECONDS)
        took.append(done.at - began)
        requester.use(done)
    return median(took)
