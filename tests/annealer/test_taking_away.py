"""Deletions that a command begins and annealers end, and what annealers do not let go."""

from __future__ import annotations

from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.engine import binding
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Node, Role, Run, State
from nodepool_ocb.store.world.load import load_world
from tests.fixtures.deletions import deletion_of_node
from tests.journeys.fleet import DEPLOYMENT, Fleet


def test_a_node_is_not_deleted_from_under_a_run_that_began_after_it_was_judged(fleet: Fleet) -> None:
    fqdn = fleet.nodes[0]
    fleet.add_role("slow", fleet.work(2.0))
    noderole = fleet.bind("slow", fqdn)
    views = [load_world(fleet.session)]
    fleet.annealer().begin()
    fleet.until_started(noderole)
    refused = ""
    try:
        performer().decided(
            fleet.session,
            lambda: deletion_of_node(fleet.session, views.pop() if views else load_world(fleet.session), fqdn),
        )
    except Conflict as conflict:
        refused = str(conflict)
    assert "is at work" in refused
    fleet.until_state(noderole, State.ACTIVE)
    assert fleet.starts()[noderole] == 1
    assert not fleet.faults()


def test_a_deletion_that_stopped_between_two_transactions_is_ended_by_an_annealer(fleet: Fleet) -> None:
    fqdn, other = fleet.nodes[0], "other.example.com"
    fleet.add_role("base", Role(barclamp="b", jig="noop"))
    fleet.add_role("leaf", Role(barclamp="b", jig="noop", requires=("base",)))
    noderole = fleet.bind("base", fqdn)
    fleet.add_node(other, Node(deployment=DEPLOYMENT))
    session = fleet.session
    session.commit(binding.plan(load_world(session), "leaf", other, now=1.0, parents=[noderole]).changes)
    run = Run(annealer="a", started=0.0, ended=1.0, outcome="succeeded", generation=1, epoch=1)
    for start in (0, 300):
        history: list[Change] = [Create(paths.run("base", fqdn, f"{n:010d}-x"), run) for n in range(start, start + 300)]
        session.commit(history)
    session.commit(next(iter(deletion_of_node(session, load_world(session), fqdn))))
    fleet.annealer().begin()
    fleet.until(lambda: session.get(paths.node(fqdn)) is None, "the node is gone")
    world = load_world(session)
    assert fqdn not in world.nodes
    assert not list(world.vertices())
    assert other in world.nodes


def test_a_hooked_deletion_waits_for_what_was_committed_below_it_and_goes_on_when_that_is_gone(fleet: Fleet) -> None:
    fqdn, other = fleet.nodes[0], "other.example.com"
    fleet.add_role("base", Role(barclamp="b", jig="noop"))
    fleet.add_role("leaf", Role(barclamp="b", jig="noop", requires=("base",)))
    noderole = fleet.bind("base", fqdn)
    fleet.add_node(other, Node(deployment=DEPLOYMENT))
    leaf = fleet.bind("leaf", other, [noderole])
    fleet.set_node(fqdn, deleting=True)
    annealer = fleet.annealer().begin()
    fleet.until(lambda: f"{leaf} depends on {noderole}" in annealer.said, "it says why it waits")
    assert session_has(fleet, fqdn)
    fleet.happens(leaf, Event.PROPOSE)
    fleet.until(lambda: not session_has(fleet, fqdn), "the node is gone", seconds=60.0)
    assert leaf not in {vertex.name for vertex in load_world(fleet.session).vertices()}


def session_has(fleet: Fleet, fqdn: str) -> bool:
    return fleet.session.get(paths.node(fqdn)) is not None
