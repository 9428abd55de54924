"""What a claim needs beside the records themselves: deleted, spoiled or there already, under a real annealer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.readiness import Code, why_not
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Delete, Fence, Node, NodeRole, Run, Set, State
from nodepool_ocb.store import daemons
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server
from tests.annealer.test_unreadable_records import unreadable, until_swept
from tests.journeys.fleet import Fleet
from tests.journeys.staging import acting, nodes, roles

HUB: Final = "hub.example.com"
RUN: Final = "0000000001-abc"


@pytest.fixture
def bare(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    """One node without a machine, and a role."""
    with Fleet(zookeeper, chroot, tmp_path, machines=0) as fleet:
        roles(fleet, base=acting())
        nodes(fleet, {HUB: Node()})
        yield fleet


def interrupted(fleet: Fleet) -> str:
    """A noderole whose annealer died while it ran."""
    name = fleet.bind("base", HUB)
    record = NodeRole(state=State.TRANSITION, since=1.0, deployment="fleet", generation=1, run=RUN, epoch=1, by="a")
    fleet.session.commit([Set(paths.noderole("base", HUB), record, 0)])
    return name


@pytest.mark.parametrize("died", [False, True], ids=["new", "taken over"])
def test_where_the_records_of_runs_stand_is_made_again(bare: Fleet, died: bool) -> None:
    name = interrupted(bare) if died else bare.bind("base", HUB)
    bare.session.commit([Delete(paths.runs("base", HUB), 0)])
    bare.annealer().start()
    bare.until_state(name, State.ACTIVE)
    assert len(bare.runs(name)) == 1 + died


def test_a_run_that_has_its_record_already_is_taken_over(bare: Fleet) -> None:
    name = interrupted(bare)
    run = Run(annealer="a", started=1.0, ended=2.0, outcome="died", generation=1, epoch=1)
    bare.session.commit([Create(paths.run("base", HUB, RUN), run)])
    bare.annealer().start()
    bare.until_state(name, State.ACTIVE)
    assert bare.runs(name)[RUN] == run


def test_a_node_without_a_fence_is_left_alone_until_it_has_one(bare: Fleet) -> None:
    name = bare.bind("base", HUB)
    bare.session.commit([Delete(paths.fence(HUB), 0)])
    annealer = bare.annealer(sweep_seconds=0.5).start()
    until_swept(bare, annealer)
    assert bare.state(name) is State.TODO
    assert annealer.metric("nodepool_ocb_zookeeper_stale_total") == 0
    bare.session.commit([Create(paths.fence(HUB), Fence())])
    bare.until_state(name, State.ACTIVE)


def test_a_node_that_is_spoiled_while_a_run_goes_on_fails_nothing(bare: Fleet) -> None:
    roles(bare, slow=acting(2.0))
    name = bare.bind("slow", HUB)
    annealer = bare.annealer(sweep_seconds=0.5).start()
    bare.until_state(name, State.TRANSITION)
    with unreadable(bare, paths.node(HUB)):
        until_swept(bare, annealer)
    bare.until_state(name, State.ACTIVE)
    assert "AssertionError" not in annealer.said


@pytest.mark.parametrize("spoiled", [False, True], ids=["deleted", "spoiled"])
def test_a_registration_that_a_hand_took_is_made_again(bare: Fleet, spoiled: bool) -> None:
    """Without one its claims would be nobody's, and the way out that is told for those is to delete them."""
    annealer = bare.annealer(sweep_seconds=0.5).start()
    (name,) = bare.session.children(paths.daemons("annealer")) or ()
    path = paths.daemon("annealer", name)
    if spoiled:
        bare.session._client.set(path, b"{oops")
    else:
        bare.session._client.delete(path)
    bare.until(lambda: daemons.read(bare.session, "annealer").get(name), "it is there again")
    made = bare.session.get(path)
    until_swept(bare, annealer)
    assert bare.session.get(path) == made, "once is enough"


def test_a_fence_that_is_made_anew_as_explain_says_is_obeyed_by_the_machine(fleet: Fleet) -> None:
    fleet.add_role("first", fleet.work(0.0))
    (machine,) = fleet.nodes
    name = fleet.bind("first", machine)

    def done() -> bool:
        record = fleet.record(name)
        return record.state is not State.TODO and record.state is not State.TRANSITION and not record.refresh

    annealer = fleet.annealer().start()
    for _ in range(3):
        fleet.until(lambda: done() and not fleet.claim_stands(machine), "it was run")
        fleet.happens(name, Event.REFRESH)
    fleet.until(lambda: done() and not fleet.claim_stands(machine), "the last run has ended")
    annealer.terminate()
    fleet.session._client.delete(paths.fence(machine))
    fleet.happens(name, Event.REFRESH)
    vertex = load_world(fleet.session).vertex(name)
    assert vertex is not None
    advice = next(each.advice for each in why_not(vertex.node.world, vertex, 1.0) if each.code is Code.INCOMPLETE)
    base = re.search(r'"epoch_base":(\d+)', advice)
    assert base
    fleet.set_node(machine, epoch_base=int(base[1]))
    fleet.session.commit([Create(paths.fence(machine), Fence())])
    fleet.annealer().start()
    fleet.until(done, "it was run again")
    assert fleet.state(name) is State.ACTIVE, fleet.record(name).reason
