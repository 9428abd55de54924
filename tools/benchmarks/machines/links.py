"""What an open link costs: the memory and the threads of the process, at 32 links and at 256, which fill the pool.

pyinfra holds a connection to each machine as well, in one thread. Ansible has a process of ssh for each, which is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from benchmarks import ensemble, peers
from benchmarks.figure import Figure, Plan, over
from benchmarks.machines import sides
from benchmarks.machines.ours import SCRIPT, OurSide, farm, our_side, scripted
from benchmarks.machines.steps import Round, middle
from nodepool_ocb.config import SshSettings
from nodepool_ocb.testing.grid import Grid

LARGE: Final = SshSettings().pool
SMALL: Final = 32

Rounds = tuple[Sequence[Round], Sequence[Round]]  # with few links, with many


def measure(plan: Plan) -> Iterator[Figure]:
    """KiB and threads of each link more."""
    few, many = plan.size(SMALL, least=2), plan.size(LARGE)
    with ExitStack() as stack:
        server = stack.enter_context(ensemble.server())
        farms = [stack.enter_context(farm(count)) for count in (few, many)]
        grid = Grid(nodes=1, depth=1, across=False, role=scripted(SCRIPT))
        worlds = [stack.enter_context(our_side(server, each, grid)) for each in farms]
        works = [sides.work(each, 1) for each in farms]
        rounds = [(_each(worlds), [sides.pyinfra(work) for work in works]) for _ in range(plan.rounds)]
    ours = [own[0] for own, _ in rounds], [own[1] for own, _ in rounds]
    peer = [each for _, pair in rounds for each in pair[0]], [each for _, pair in rounds for each in pair[1]]
    yield from _figures(f"each of the links from {few} to {many}", ours, peer)


def _each(worlds: Sequence[OurSide]) -> list[Round]:
    rounds = []
    for each in worlds:
        with each.annealer() as process:
            rounds.append(each.round(process))
    return rounds


def _figures(what: str, ours: Rounds, peer: Rounds) -> Iterator[Figure]:
    _check(ours)
    at_peer = bool(peer[0])
    for unit, value in (("KiB", _kib), ("threads", _threads)):
        own, other = per_link(ours, value), per_link(peer, value) if at_peer else None
        yield Figure(
            name="links", what=f"{what}: {unit}", unit=unit, ours=own, other=other, beside=f"{unit}, {sides.PYINFRA}",
            ratio=over(own, other), note=_note(ours, value) if at_peer else peers.MISSING,
        )  # fmt: skip


def _check(rounds: Rounds) -> None:
    """Raises RuntimeError if links were closed before they were counted."""
    opened = per_link(rounds, lambda each: _known(each.sockets))
    if not 0.9 < opened < 1.1:
        raise RuntimeError(f"{opened:.2f} sockets were open for each link: this is not the cost of a link")


def per_link(rounds: Rounds, value: Callable[[Round], float]) -> float:
    """The difference of a value between many links and few, for each link more."""
    few, many = (middle(each, value) for each in rounds)
    links = rounds[1][0].size - rounds[0][0].size  # a step on each machine
    assert few is not None
    assert many is not None
    return (many - few) / links


def _kib(each: Round) -> float:
    return _known(each.resident_bytes) / 1024


def _threads(each: Round) -> float:
    return _known(each.threads)


def _known(value: int | None) -> int:
    assert value is not None, "both processes are measured"
    return value


def _note(ours: Rounds, value: Callable[[Round], float]) -> str:
    few, many = (middle(each, value) for each in ours)
    return f"the annealer: {few:,.0f} at {ours[0][0].size} links, {many:,.0f} at {ours[1][0].size}"
