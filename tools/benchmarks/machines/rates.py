"""Two hundred real machines, five scripts each that depend on one another: steps a second, beside pyinfra and Ansible.

The machines are sshd processes on this computer, which does the work of both sides: the costs of the sides are compared.
Installing: the runner is not on the machines yet. Cold: no connection is open yet. Warm: those of the round before are. The
peers connect again, as they always do.

All sides do the same work, in their intended use: five operations for each machine, with one command each. The exit
status is checked before the next command starts. Each side works on as many machines at a time. The clock starts when the
program is loaded and knows its machines, before the first connection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from benchmarks import ensemble, peers
from benchmarks.figure import Figure, Plan, over
from benchmarks.machines import sides
from benchmarks.machines.ours import SCRIPT, OurSide, farm, forget_runner, our_side, scripted
from benchmarks.machines.steps import Round, middle, pooled, times
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.machines import Farm

MACHINES: Final = 200
STEPS: Final = 5
FOR_ANSIBLE: Final = 20  # machines: with all of them a round takes minutes
INSTALLING: Final = "with the installation of the runner"
COLD: Final = "cold"
WARM: Final = "warm"
#: The reason for the targets of the rates: the fork, the key exchange and the shell of a machine cost more than both controllers.
OF_BOTH_ENDS: Final = (
    "more than half of it is the CPU of the machines, which share these cores; see the CPU of the controllers"
)

Measured = Mapping[str, Sequence[Round]]


def measure(plan: Plan) -> Iterator[Figure]:
    """Steps a second, the CPU of the controllers, and the time of a step."""
    count = plan.size(MACHINES)
    with ensemble.server() as server, farm(count) as machines:
        grid = Grid(nodes=count, depth=STEPS, across=False, role=scripted(SCRIPT))
        with our_side(server, machines, grid) as ours:
            found = _rounds(plan, ours, machines, count)
    yield from figures(f"{count} machines x {STEPS} dependent scripts", found)


def figures(what: str, found: Measured) -> Iterator[Figure]:
    """Those of rounds that were measured, by side; a peer that is missing has none."""
    yield from _rates(what, found)
    yield _cpu(what, found)
    yield from _steps(what, found)


def _rounds(plan: Plan, ours: OurSide, machines: Farm, count: int) -> Measured:
    found: defaultdict[str, list[Round]] = defaultdict(list)
    work = sides.work(machines, STEPS)
    for _ in range(plan.rounds):
        forget_runner(machines, count)
        with ours.annealer() as process:
            found[INSTALLING].append(ours.round(process))
        with ours.annealer() as process:
            found[COLD].append(ours.round(process))
            found[WARM].append(ours.round(process))
        found[sides.PYINFRA] += sides.pyinfra(work)
        found[sides.ANSIBLE] += sides.ansible(work.first(FOR_ANSIBLE))
    return found


def _rates(what: str, found: Measured) -> Iterator[Figure]:
    few = f"{sides.ABOUT_ANSIBLE}; {len(found[COLD][0].steps[:FOR_ANSIBLE])} machines"
    for side, peer, target, note in (
        (INSTALLING, sides.PYINFRA, None, "no target: once in the life of a machine"),
        (COLD, sides.PYINFRA, 0.75, OF_BOTH_ENDS),
        (WARM, sides.PYINFRA, 1.5, OF_BOTH_ENDS),
        (COLD, sides.ANSIBLE, 25.0, few),
        (WARM, sides.ANSIBLE, None, few),
    ):
        own, other = middle(found[side], _rate), middle(found[peer], _rate)
        yield Figure(
            name="machines",
            what=f"{what}, {side}",
            unit="steps/s",
            ours=own,
            other=other,
            beside=f"steps/s, {peer}",
            ratio=over(own, other),
            bound="at least",
            target=target,
            note=note if other else peers.MISSING,
        )


def _cpu(what: str, found: Measured) -> Figure:
    own, other = middle(found[WARM], _cpu_ms), middle(found[sides.PYINFRA], _cpu_ms)
    return Figure(
        name="machines",
        what=f"{what}, warm: CPU of annealer and ZooKeeper, a step",
        unit="ms",
        ours=own,
        other=other,
        beside=f"ms, {sides.PYINFRA}'s process",
        ratio=over(own, other),
        bound="at most",
        target=1.3,
        note="that of the machines is not counted: in production no controller pays it" if other else peers.MISSING,
    )


def _steps(what: str, found: Measured) -> Iterator[Figure]:
    """With all slots busy on two cores: no promise, for the load makes these times."""
    own = pooled(found[WARM], lambda each: each.durations)
    for peer in (sides.PYINFRA, sides.ANSIBLE):
        other = pooled(found[peer], lambda each: each.durations)
        note = "from claim to result; 20 machines at once share these cores" if other else peers.MISSING
        yield times("machines", f"{what}, warm: a step, median", own, other, peer, None, note)


def _rate(each: Round) -> float | None:
    return each.rate


def _cpu_ms(each: Round) -> float | None:
    return each.cpu_ms
