"""Pipelined writes: our session beside kazoo's, with the same bytes, versions and window."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from kazoo.client import KazooClient

from benchmarks import ensemble
from benchmarks.figure import Figure, Plan, interleaved
from benchmarks.flood import WINDOW, flood
from nodepool_ocb.model.records import Create, NodeRole, Set, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session

ZNODES: Final = 1_000
SETS: Final = 20_000
RECORD: Final = NodeRole.of(state=State.ACTIVE, since=1_700_000_000.0, reason="x" * 380)
DATA: Final = codec.encode(RECORD)


def measure(plan: Plan) -> Iterator[Figure]:
    """Sets a second."""
    each = plan.size(SETS) // ZNODES or 1
    with ensemble.server() as server:
        settings = ensemble.settings(server)
        with ensemble.session(settings) as ours, ensemble.kazoo(settings) as kazoo:
            paths = make_znodes(ours)
            versions = [0]  # all znodes are at the same

            def our_sets() -> float:
                return _rate(each, versions, lambda first: _ours(ours, paths, first, each))

            def kazoo_sets() -> float:
                return _rate(each, versions, lambda first: _kazoo(kazoo, paths, first, each))

            rates = interleaved(plan.rounds, {"ours": our_sets, "kazoo": kazoo_sets})
    yield Figure(
        name="sets",
        what=f"pipelined sets of {len(DATA)} bytes through our session",
        unit="sets/s",
        ours=rates["ours"],
        other=rates["kazoo"],
        beside="sets/s, kazoo set_async",
        ratio=rates["ours"] / rates["kazoo"],
        bound="at least",
        target=3.0,
    )


def make_znodes(session: Session) -> list[str]:
    """A thousand znodes at version 0; gives their paths."""
    paths = [f"/bench/{number:04}" for number in range(ZNODES)]
    for start in range(0, ZNODES, 250):
        session.commit([Create(path, RECORD) for path in paths[start : start + 250]])
    return paths


def _rate(each: int, versions: list[int], send: Any) -> float:
    took: float = send(versions[0])
    versions[0] += each
    return each * ZNODES / took


def _ours(session: Session, paths: list[str], first: int, each: int) -> float:
    return flood(session, ([Set(path, RECORD, first + turn)] for turn in range(each) for path in paths))


def _kazoo(client: KazooClient, paths: list[str], first: int, each: int) -> float:
    room = threading.Semaphore(WINDOW)
    began = time.perf_counter()
    last: list[Any] = []
    for turn in range(each):
        for path in paths:
            room.acquire()
            answer = client.set_async(path, DATA, first + turn)
            answer.rawlink(lambda _: room.release())
            last = [answer]
    for _ in range(WINDOW):
        room.acquire()
    took = time.perf_counter() - began
    last[0].get()
    return took
