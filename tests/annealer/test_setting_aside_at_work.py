"""Annealers leave alone what is held or paused, finish or end what runs there, and go on by themselves when its time is up."""

from __future__ import annotations

import time

from nodepool_ocb.engine import aside, nodes
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Change, State
from tests.journeys.fleet import Fleet

LONG_SECONDS = 30.0


def test_what_is_held_or_paused_is_left_alone_until_its_time_is_up_and_what_runs_is_ended_by_force(
    fleet: Fleet,
) -> None:
    fleet.add_role("long", fleet.work(LONG_SECONDS))
    fleet.add_role("short", fleet.work(0.0))
    node = fleet.nodes[0]
    running = fleet.bind("long", node)
    annealer = fleet.annealer().begin()
    fleet.until_started(running)
    fleet.write(
        lambda world: [
            c for part in nodes.hold(world, node, "ann", "cables", time.time(), None, end=True) for c in part
        ]
    )
    fleet.until_state(running, State.ERROR)
    assert fleet.record(running).reason == "cables (ann)"
    waiting = fleet.bind("short", node)
    assert fleet.state(waiting) is State.TODO
    deployment = fleet.record(waiting).deployment

    def pause(world: World) -> list[Change]:
        return aside.pause(world, deployment, "ann", "switch", time.time(), time.time() + 2.0)

    fleet.write(pause)
    fleet.write(lambda world: nodes.release(world, node, time.time(), "ann"))
    paused_until = time.time() + 1.0
    fleet.until_state(waiting, State.ACTIVE)
    assert time.time() > paused_until, "nobody resumed it"
    assert annealer.running
