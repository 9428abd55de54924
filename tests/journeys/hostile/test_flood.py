"""Thousands of connections to the pages of an annealer: its work goes on, and so do its pages."""

from __future__ import annotations

import os
import resource
import time
from typing import Final

import pytest

from nodepool_ocb.http.connections import CONNECTIONS
from nodepool_ocb.model.records import State
from nodepool_ocb.testing.processes import CutDaemon
from tests.http.flood import Flood
from tests.journeys.fleet import Fleet

OTHERS: Final = 40  # descriptors or threads that work takes meanwhile
LATE_SECONDS: Final = 15.0  # on a busy machine; a run that waits for the end of the flood never comes


def descriptors(annealer: CutDaemon) -> int:
    return len(os.listdir(f"/proc/{annealer.pid}/fd"))


def threads(annealer: CutDaemon) -> int:
    return len(os.listdir(f"/proc/{annealer.pid}/task"))


@pytest.mark.parametrize(
    ("idle", "dripping", "limit", "rounds"),
    [
        pytest.param(600, 200, 256, 2, id="short"),
        pytest.param(10_000, 1_000, 1024, 10, id="long-1024", marks=pytest.mark.long),
        pytest.param(10_000, 1_000, 65536, 10, id="long-65536", marks=pytest.mark.long),
    ],
)
def test_a_flood_of_the_pages_delays_no_run(fleet: Fleet, idle: int, dripping: int, limit: int, rounds: int) -> None:
    (machine,) = fleet.nodes
    annealer = fleet.annealer().start()
    hard = resource.prlimit(annealer.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(annealer.pid, resource.RLIMIT_NOFILE, (min(limit, hard), hard))
    fleet.add_role("first", fleet.work(0.0))
    fleet.until_state(fleet.bind("first", machine), State.ACTIVE)
    before = descriptors(annealer), threads(annealer)
    with Flood(annealer.pages, idle, dripping):
        for number in range(rounds):
            fleet.farm.cut(0)  # so that a descriptor and threads for a new connection are needed
            fleet.add_role(f"more{number}", fleet.work(0.0))
            began = time.monotonic()
            fleet.until_state(fleet.bind(f"more{number}", machine), State.ACTIVE, LATE_SECONDS)
            print(f"round {number}: {time.monotonic() - began:.1f} s, {descriptors(annealer)} descriptors")
            assert descriptors(annealer) <= before[0] + CONNECTIONS + OTHERS
            assert threads(annealer) <= before[1] + CONNECTIONS + OTHERS
            fleet.until(annealer.ready, "the pages answer a client that asks again", LATE_SECONDS)
    assert annealer.said.count("pages: ") <= 1 + rounds * LATE_SECONDS / 60
    assert "Traceback" not in annealer.said
