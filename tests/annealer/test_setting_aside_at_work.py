"""Annealers leave alone what is held or paused, finish or end what runs there, and go on by themselves when its time is up."""

from __future__ import annotations

import time
from pathlib import Path

from nodepool_ocb.engine import maintenance, nodes
from nodepool_ocb.engine.readiness import Code, why_not
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Change, State
from nodepool_ocb.store.world.load import load_world
from tests.journeys.fleet import Fleet, vertex_of
from tests.journeys.history import Event as Noted

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
        return maintenance.pause(world, deployment, "ann", "switch", time.time(), time.time() + 2.0)

    fleet.write(pause)
    fleet.write(lambda world: nodes.release(world, node, time.time(), "ann"))
    paused_until = time.time() + 1.0
    fleet.until_state(waiting, State.ACTIVE)
    assert time.time() > paused_until, "nobody resumed it"
    assert annealer.running


def test_a_run_whose_annealer_died_while_its_node_is_held_is_adopted_when_that_is_over(
    fleet: Fleet, tmp_path: Path
) -> None:
    """Its machine goes on with it, and keeps how it ended."""
    go_on, node = tmp_path / "go-on", fleet.nodes[0]
    fleet.add_role("long", fleet.work(0.0, f'while [ ! -e "{go_on}" ]; do sleep 0.05; done'))
    running, first = fleet.bind("long", node), fleet.annealer().begin()
    fleet.until_started(running)
    fleet.write(lambda world: [c for part in nodes.hold(world, node, "ann", "cables", time.time(), None) for c in part])
    first.kill()
    fleet.until(lambda: not fleet.living(), "it is gone")
    fleet.annealer().begin()
    fleet.until(fleet.living, "there is another")
    go_on.touch()
    fleet.until(lambda: fleet.noted(Noted.ENDED)[running], "it ends on its machine")
    assert (fleet.state(running), fleet.claim_stands(node)) == (State.TRANSITION, False)
    world = load_world(fleet.session)
    assert [each.code for each in why_not(world, vertex_of(world, running), time.time())] == [Code.NODE_HELD]
    fleet.write(lambda world: nodes.release(world, node, time.time(), "ann"))
    fleet.until_state(running, State.ACTIVE)
    assert fleet.starts()[running] == 1
