"""Events for 200 clients, 5 of them stuck: the time until the others see a change, and the memory that the server takes."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from typing import Final

from benchmarks import ensemble
from benchmarks.figure import Figure, Plan
from benchmarks.serving import rack
from benchmarks.serving.listing import GRID, Writer
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Node
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.crowd import EventCrowd, latencies

CLIENTS, STUCK = 200, 5
CHANGES: Final = 200
PAUSE_SECONDS: Final = 0.05  # between two changes
LATE_SECONDS: Final = 30.0
FILLING: Final = 150  # large records, which fill the connections of the stuck clients
FILLING_BYTES: Final = 64 * 1024
MOST_MIB: Final = 96.0


def measure(plan: Plan) -> Iterator[Figure]:
    """The median over all changes and readers, and the growth of the server's resident memory."""
    grid, clients = GRID.of(plan.size(GRID.nodes, least=10)), plan.size(CLIENTS, least=20)
    with ensemble.server() as server:
        settings = ensemble.settings(server)
        with ensemble.session(settings) as session:
            grid.write(session)
            token = rack.token(settings)
            with rack.served(settings) as (process, port):
                before, load = process.resident_bytes, os.getloadavg()[0]
                readers = clients - STUCK
                with EventCrowd(
                    port, token, reading=readers, stuck=STUCK, path="/v1/events?kind=noderole", stuck_path="/v1/events"
                ) as crowd:
                    fill(session, plan.size(FILLING, least=20))
                    writer, written = Writer(session), dict[int, float]()
                    for _ in range(plan.size(CHANGES, least=20)):
                        began = time.monotonic()
                        written[writer.change()] = began
                        time.sleep(PAUSE_SECONDS)
                    took = sorted(latencies(crowd, written, readers, LATE_SECONDS))
                    grown = (process.resident_bytes - before) / (1 << 20)
    note = f"{took[0]:.3f} to {took[-1]:.3f} s; load {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    what = f"{clients} event clients, {STUCK} of them stuck, {grid.size:,} noderoles"
    middle = statistics.median(took)
    yield Figure(
        name="events", what=f"{what}: a change at the others", unit="s", ours=middle, ratio=middle, bound="at most", target=1.0,
        note=note,
    )  # fmt: skip
    yield Figure(
        name="events", what=f"{what}: memory of the server", unit="MiB more", ours=grown, ratio=grown, bound="at most",
        target=MOST_MIB,
    )  # fmt: skip


def fill(session: Session, changes: int) -> None:
    """Write so many large records."""
    for number in range(changes):
        session.commit([Create(paths.node(f"large{number}.bench.example.com"), Node(rack="x" * FILLING_BYTES))])
