"""A machine that answers probes and that no run gets anywhere on does not come and go without end."""

from __future__ import annotations

import time

import pytest

from nodepool_ocb.model.records import State
from tests.journeys.fleet import Fleet

WATCHED_SECONDS = 8.0


@pytest.mark.long
def test_a_machine_that_runs_find_dead_right_after_each_probe_is_probed_later_and_later(fleet: Fleet) -> None:
    fleet.add_role("first", fleet.work(0.0))
    (machine,) = fleet.nodes
    probes_only = (
        'case "$SSH_ORIGINAL_COMMAND" in printf*|true) eval "$SSH_ORIGINAL_COMMAND";; *) echo no runs here;; esac'
    )
    fleet.farm.force(0, probes_only)
    annealer = fleet.annealer().begin()
    noderole = fleet.bind("first", machine)
    fleet.until(lambda: "no runs here" in (fleet.node(machine).reason or ""), "a run finds it dead", 60.0)
    fleet.until(lambda: annealer.said.count(f"{machine} is alive") >= 4, "it comes and goes", 60.0)
    deadline, before = time.monotonic() + WATCHED_SECONDS, annealer.said.count(f"{machine} is alive")
    fleet.until(lambda: time.monotonic() > deadline, "it is watched", 2 * WATCHED_SECONDS)
    assert annealer.said.count(f"{machine} is alive") - before <= 2
    assert fleet.state(noderole) is not State.ERROR
