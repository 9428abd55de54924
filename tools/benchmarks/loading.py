"""Reading everything at the start: our multiRead into a World, beside kazoo's pipelined gets of the same paths."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from typing import Final

from kazoo.client import KazooClient

from benchmarks import ensemble
from benchmarks.figure import Figure, Plan, interleaved
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.grid import Grid

GRID: Final = Grid(nodes=2_000, lanes=5, depth=10, record_bytes=450)
PART: Final = 10  # kazoo reads one in so many, and its time counts so many times
IN_FLIGHT: Final = 400


def measure(plan: Plan) -> Iterator[Figure]:
    """Noderoles a second."""
    grid = GRID.of(nodes=plan.size(GRID.nodes))
    with ensemble.server() as server:
        settings = ensemble.settings(server)
        with ensemble.session(settings) as ours, ensemble.kazoo(settings) as kazoo:
            grid.write(ours)
            names = list(grid.paths())[::PART]
            sides = {
                "ours": lambda: grid.size / _load(ours, grid.size),
                "kazoo": lambda: len(names) / _get(kazoo, names),
            }
            rates = interleaved(plan.rounds, sides)
    yield Figure(
        name="load",
        what=f"{grid.size:,} noderoles of {grid.record_bytes} bytes on {grid.nodes:,} nodes into a World",
        unit="noderoles/s",
        ours=rates["ours"],
        other=rates["kazoo"],
        beside="gets/s, kazoo get_async",
        ratio=rates["ours"] / rates["kazoo"],
        bound="at least",
        target=20.0,
        note=f"kazoo read every {PART}th of the paths, {len(names):,}, and only read; ours also decodes and links",
    )


def _load(session: Session, expected: int) -> float:
    gc.collect()
    began = time.perf_counter()
    world = load_world(session)
    took = time.perf_counter() - began
    if sum(len(node.noderoles) for node in world.nodes.values()) != expected:
        raise RuntimeError("not every noderole was loaded")
    return took


def _get(client: KazooClient, names: list[str]) -> float:
    room = threading.Semaphore(IN_FLIGHT)
    began = time.perf_counter()
    answers = []
    for name in names:
        room.acquire()
        answer = client.get_async(name)
        answer.rawlink(lambda _: room.release())
        answers.append(answer)
    for answer in answers:
        answer.get()
    return time.perf_counter() - began
