"""Ten thousand noop noderoles from BLOCKED to ACTIVE: transactions, and rates beside a floor and the usual recipe."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Final

from benchmarks import ensemble
from benchmarks.convergence import Convergence, converge
from benchmarks.figure import Figure, Plan, interleaved
from benchmarks.flood import flood
from benchmarks.sending import DATA, RECORD, make_znodes
from nodepool_ocb.model.records import Change, Check, Set
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.zookeeper.server import Server

GRID: Final = Grid(nodes=200, lanes=5, depth=10)
MULTIS: Final = 20_000  # as many as our noderoles would need with two each
LOCKED: Final = 300  # noderoles of the Lock recipe: a sample, it is slow
THREADS: Final = 10


def measure(plan: Plan) -> Iterator[Figure]:
    """Transactions a noderole, and noderoles a second."""
    grid = GRID.of(nodes=plan.size(GRID.nodes))
    seen: list[Convergence] = []
    with ensemble.server() as server:

        def ours() -> float:
            seen.append(converge(server, grid))
            return seen[-1].rate

        sides = {
            "ours": ours,
            "floor": lambda: bare_multis(server, plan.size(MULTIS)) / 2,
            "locks": lambda: locked(server, plan.size(LOCKED)),
        }
        rates = interleaved(plan.rounds, sides)
    what = f"{grid.size:,} noop noderoles on {grid.nodes} nodes, depth {grid.depth}"
    yield Figure(
        name="converge",
        what=f"{what}: transactions a noderole",
        unit="a noderole",
        ours=(each := median(one.transactions / one.size for one in seen)),
        ratio=each,
        bound="at most",
        target=0.5,  # inline noderoles go together; each alone would need two
        note="counted by the server, refused ones included",
    )
    yield Figure(
        name="converge",
        what=what,
        unit="noderoles/s",
        ours=rates["ours"],
        other=rates["floor"],
        beside="/s, bare multis of three through the same client, two a noderole",
        ratio=rates["ours"] / rates["floor"],
        bound="at least",
        target=1.2,  # for the same reason it is faster than two multis each
    )
    yield Figure(
        name="converge",
        what=what,
        unit="noderoles/s",
        ours=rates["ours"],
        other=rates["locks"],
        beside="/s, a Lock and two synchronous sets each, ten threads",
        ratio=rates["ours"] / rates["locks"],
        bound="at least",
        target=8.0,
        note=f"the Lock recipe was measured on {plan.size(LOCKED)} noderoles, without dependencies",
    )


def bare_multis(server: Server, count: int) -> float:
    """Transactions of a check and two sets, a second, with nothing to decide."""
    with ensemble.session(ensemble.settings(server)) as session:
        paths = make_znodes(session)
        half = len(paths) // 2
        return count // half * half / flood(session, multis(paths, count))


def multis(paths: Sequence[str], count: int) -> Iterator[list[Change]]:
    """Transactions of a check and two sets: a multiple of half the paths, at most ``count``.

    All of the znodes are at version 0.
    """
    half = len(paths) // 2
    for turn in range(count // half):
        for at in range(half):
            yield [Check("/bench", 0), Set(paths[at], RECORD, turn), Set(paths[half + at], RECORD, turn)]


def locked(server: Server, count: int) -> float:
    """Noderoles a second, the usual way: a lock on the node, TRANSITION, ACTIVE, each write waited for."""
    with ensemble.session(settings := ensemble.settings(server)) as session, ensemble.kazoo(settings) as client:
        paths = make_znodes(session)[:count]

        def one(number: int) -> None:
            with client.Lock(f"/locks/n{number % GRID.nodes:03}"):
                client.set(paths[number], DATA, 0)
                client.set(paths[number], DATA, 1)

        with ThreadPoolExecutor(THREADS) as threads:
            began = time.perf_counter()
            for _ in threads.map(one, range(len(paths))):
                pass
            return len(paths) / (time.perf_counter() - began)
