"""A list of 6,000 noderoles: on an unchanged tree, and with a change before each request, beside a bare handler.

All have one client, with one request after the other over a kept connection. The bare handler returns the same bytes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Final

from benchmarks import ensemble
from benchmarks.figure import Figure, Plan, rounds_of
from benchmarks.serving import rack
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Set
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.grid import Grid

GRID: Final = Grid(nodes=300, lanes=2, depth=10, active=True)
LIST: Final = "/v1/noderoles"
SECONDS: Final = 4.0  # of each side in a round
MOST_CHANGES: Final = 150  # in a round; each one has to reach the server first
UNCHANGED, CHANGED = 0.5, 0.1  # of the bare handler's rate


def measure(plan: Plan) -> Iterator[Figure]:
    """The rates of both, with and without changes."""
    grid = GRID.of(plan.size(GRID.nodes, least=10))
    with ensemble.server() as server:
        settings = ensemble.settings(server)
        with ensemble.session(settings) as session:
            grid.write(session)
            token = rack.token(settings)
            with rack.served(settings) as (_, port), rack.HttpClient(port, token) as ours:
                body, headers = ours.get(LIST)
                writer = Writer(session)
                with rack.bare(body, headers) as bare_port, rack.HttpClient(bare_port) as floor:
                    if floor.get(LIST)[0] != body:
                        raise RuntimeError("the bare handler has other bytes")
                    seconds = SECONDS * plan.share
                    before = os.getloadavg()[0]
                    measured = rounds_of(
                        plan.rounds,
                        {
                            "ours": lambda: ours.rate(LIST, seconds),
                            "other": lambda: floor.rate(LIST, seconds),
                            "changed": lambda: changed_rate(ours, writer, seconds),
                        },
                    )
    load = f"load {before:.1f} before, {os.getloadavg()[0]:.1f} after"
    middle = {name: sorted(values)[len(values) // 2] for name, values in measured.items()}
    for side, what, target in (("ours", "unchanged", UNCHANGED), ("changed", "a change before each request", CHANGED)):
        spread = f"{min(measured[side]):.1f} to {max(measured[side]):.1f}"
        yield Figure(
            name="list",
            what=f"a list of {grid.size:,} noderoles, {len(body) / 1e6:.1f} MB, {what}",
            unit="requests/s",
            ours=middle[side],
            other=middle["other"],
            beside="requests/s, a bare handler",
            ratio=middle[side] / middle["other"],
            bound="at least",
            target=target,
            note=f"{spread}; {load}",
        )


class Writer:
    """Changes one noderole after the other."""

    def __init__(self, session: Session) -> None:
        self._session = session
        world = load_world(session)
        self._vertices = [vertex for view in world.nodes.values() for vertex in view.noderoles.values()]
        self._versions = [vertex.version for vertex in self._vertices]
        self._next = 0

    def change(self) -> int:
        """Write a record again; gives the zxid of the write."""
        number = self._next = (self._next + 1) % len(self._vertices)
        vertex = self._vertices[number]
        path = paths.noderole(vertex.role, vertex.node.name)
        self._session.commit([Set(path, vertex.record, self._versions[number])])
        self._versions[number] += 1
        return self._session.last_zxid


def changed_rate(client: rack.HttpClient, writer: Writer, seconds: float) -> float:
    """Requests a second with a change before each one; the time until the server has read the change is left out.

    Raises RuntimeError if an answer does not show the change.
    """
    client.connect()
    spent, count, last = 0.0, 0, ""
    while spent < seconds and count < MOST_CHANGES:
        client.await_zxid(writer.change())
        began = time.monotonic()
        version = client.get(LIST)[1]["etag"]
        spent, count = spent + time.monotonic() - began, count + 1
        if version == last:
            raise RuntimeError("the answer does not show the change")
        last = version
    return count / spent
