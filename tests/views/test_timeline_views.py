"""The recent runs of noderoles: lanes, bars, and the work of now."""

from __future__ import annotations

import pytest

from nodepool_ocb.model.records import Run, State
from nodepool_ocb.views import timeline
from tests.views.small import BASE, MIDDLE, N1, N2, TOP, put, small


def run(started: float) -> Run:
    return Run(
        annealer="a1", queued=started - 1.0, started=started, ended=started + 5.0, outcome="succeeded", generation=1, epoch=1
    )  # fmt: skip


def test_a_node_is_a_lane_with_its_runs_and_the_noderoles_that_run_or_wait() -> None:
    shown, left_out = timeline.lanes(small().vertices())
    assert [vertex.name for vertex in shown] == [BASE, MIDDLE, TOP]
    found = timeline.timeline(shown, [[("r1", run(4.0)), ("r2", run(8.0))], [], []], 20.0, left_out)
    assert (found.nodes, found.now, found.nodes_left_out) == ((N1,), 20.0, 0)
    bars = [(bar.noderole, bar.run, bar.queued, bar.started, bar.ended) for bar in found.runs]
    assert bars == [(BASE, "r1", 3.0, 4.0, 9.0), (BASE, "r2", 7.0, 8.0, 13.0)]
    assert [(each.noderole, each.state) for each in found.present] == [(MIDDLE, State.BLOCKED), (TOP, State.BLOCKED)]


def test_of_many_nodes_those_that_changed_last_are_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_NODES", 1)
    world = small()
    put(world, f"base@{N2}", State.ACTIVE, since=90.0)
    shown, left_out = timeline.lanes(world.vertices())
    assert ([vertex.name for vertex in shown], left_out) == ([f"base@{N2}"], 1)


def test_noderoles_are_bounded_beside_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_RUNS", 3)
    world = small()
    put(world, f"base@{N2}", State.ACTIVE, since=90.0)
    shown, left_out = timeline.lanes(world.vertices())
    assert ({vertex.node.name for vertex in shown}, left_out) == ({N2}, 1)
