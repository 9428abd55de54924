"""The time of a step over links of 50 and 500 ms, beside pyinfra and Ansible, all through the same delaying relay.

A further step is counted from the end of the step before it to its own end: dispatch, claim, run and result. A first step is
counted from the begin of the round: connecting, and installing the runner where that is not there. Two machines at a time, so
that the cores are not the limit.

ZooKeeper has served transactions before: a new server translates its code first, and a step takes some 5 ms longer meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from benchmarks import ensemble, peers
from benchmarks.converging import bare_multis
from benchmarks.figure import Figure, Plan
from benchmarks.machines import sides
from benchmarks.machines.ours import SCRIPT, OurSide, farm, forget_runner, our_side, scripted
from benchmarks.machines.steps import Round, pooled, times
from benchmarks.relay import Relay
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.zookeeper.server import Server

MACHINES: Final = 2
STEPS: Final = 6
FOR_ANSIBLE: Final = 3  # steps: one takes seconds
SERVED: Final = 10_000  # transactions
TARGETS: Final = {0.05: 0.45, 0.5: 0.55}  # round trip in seconds → of pyinfra's time of a further step
INSTALLING: Final = "with the installation of the runner"
COLD: Final = "runner installed"

Measured = Mapping[str, Sequence[Round]]


def measure(plan: Plan) -> Iterator[Figure]:
    """Milliseconds of a further step and of a first one."""
    with ensemble.server() as server:
        bare_multis(server, plan.size(SERVED))
        for seconds, target in TARGETS.items():
            yield from figures(seconds, target, _measured(plan, server, seconds))


def _measured(plan: Plan, server: Server, seconds: float) -> Measured:
    steps = plan.size(STEPS, least=3)
    with (
        farm(MACHINES) as machines,
        Relay([machines.address(number) for number in range(MACHINES)], seconds) as relay,
    ):
        records = relay.in_front(machines.records())
        grid = Grid(nodes=MACHINES, depth=steps, across=False, role=scripted(SCRIPT))
        work = sides.work(machines, steps, machines=records)
        with our_side(server, machines, grid, records) as ours:
            return _rounds(plan, ours, machines, work)


def _rounds(plan: Plan, ours: OurSide, machines: Farm, work: sides.Work) -> Measured:
    found: defaultdict[str, list[Round]] = defaultdict(list)
    for _ in range(plan.rounds):
        forget_runner(machines, MACHINES)
        for side in (INSTALLING, COLD):
            with ours.annealer() as process:
                found[side].append(ours.round(process))
        found[sides.PYINFRA] += sides.pyinfra(work)
        found[sides.ANSIBLE] += sides.ansible(work.of_steps(plan.size(FOR_ANSIBLE, least=2)))
    return found


def figures(seconds: float, promised: float, found: Measured) -> Iterator[Figure]:
    """Those of rounds that were measured, by side; a peer that is missing has none."""
    link = f"link of {seconds * 1000:.0f} ms"
    for peer, target in ((sides.PYINFRA, promised), (sides.ANSIBLE, None)):
        own = pooled([*found[INSTALLING], *found[COLD]], lambda each: each.further)
        other = pooled(found[peer], lambda each: each.further)
        note = f"{len(own)} steps on {MACHINES} machines; {peer}: {len(other)}" if other else peers.MISSING
        yield times("latency", f"{link}: a further step, median", own, other, peer, target, note)
    for side, peer in ((COLD, sides.PYINFRA), (INSTALLING, sides.PYINFRA), (COLD, sides.ANSIBLE)):
        own = pooled(found[side], lambda each: each.firsts)
        other = pooled(found[peer], lambda each: each.firsts)
        note = "connecting included" if other else peers.MISSING
        yield times("latency", f"{link}: a first step, {side}, median", own, other, peer, None, note)
