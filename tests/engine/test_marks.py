"""Whose word on a node's aliveness counts, for how long, and what it makes of the node's noderoles."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.engine import liveness, marks
from nodepool_ocb.engine.readiness import Code, why_not
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.aliveness import Mark, Marker, Suspicion
from nodepool_ocb.model.records import Change, Create, Node, Run, State
from tests.engine.test_deaths import N1, node, records, state, write
from tests.engine.test_deaths import world as made_of

NOW = 1000.0


def mark(kind: Marker = Marker.PERSON, until: float | None = None) -> Mark:
    return Mark(kind=kind, by="ann", reason="new disk", since=1.0, until=until)


def world(record: Node, **states: State) -> World:
    made = made_of(**states)
    made.put_node(N1, record, 5)
    return made


def says(made: World, marker: Marker = Marker.PERSON, **fields: Any) -> list[Change]:
    return liveness.changed(made, made.nodes[N1], NOW, "ann", marker=marker, **fields)


def test_a_mark_holds_until_its_time_is_up_or_for_good() -> None:
    assert marks.holds(Node(mark=mark()), 9e9)
    assert marks.holds(Node(mark=mark(until=NOW + 1)), NOW)
    assert not marks.holds(Node(mark=mark(until=NOW)), NOW)
    assert not marks.holds(Node(alive=True, mark=mark()), NOW), "a hand wrote it"
    assert not marks.holds(Node(), NOW)


@pytest.mark.parametrize("holder", Marker)
@pytest.mark.parametrize("marker", Marker)
def test_a_person_lifts_every_mark_the_machine_all_but_a_persons_and_a_hook_a_hooks(
    holder: Marker, marker: Marker
) -> None:
    """The machine is back after an installation that a hook began; it is not back because somebody takes it apart."""
    may = {
        (Marker.PERSON, Marker.PERSON),
        (Marker.HOOK, Marker.PERSON),
        (Marker.MACHINE, Marker.PERSON),
        (Marker.HOOK, Marker.HOOK),
        (Marker.HOOK, Marker.MACHINE),
        (Marker.MACHINE, Marker.MACHINE),
    }
    made = world(Node(mark=mark(holder)))
    if (holder, marker) in may:
        found = node(says(made, marker, alive=True))
        assert (found.alive, found.mark, found.since) == (True, None, NOW)
        replaced = node(says(made, marker, alive=False, reason="moved")).mark
        assert replaced is not None
        assert (replaced.kind, replaced.reason, replaced.since) == (marker, "moved", NOW)
    elif marker is Marker.HOOK:
        assert says(made, marker, alive=True) == says(made, marker, alive=False) == []
    else:
        with pytest.raises(Conflict, match="only a person lifts that"):
            says(made, marker, alive=True)


def test_a_mark_whose_time_is_up_is_lifted_by_anybody() -> None:
    made = world(Node(mark=mark(until=NOW)))
    assert node(says(made, Marker.HOOK, alive=True)).alive


def test_the_same_word_of_a_hook_again_changes_nothing() -> None:
    """Hooks run at least once, and a change of the node is what some run for."""
    made = world(Node(alive=True))
    first = says(made, Marker.HOOK, alive=False, reason="installs", hold_seconds=60.0)
    assert node(first).mark == Mark(kind=Marker.HOOK, by="ann", reason="installs", since=NOW, until=NOW + 60)
    made.put_node(N1, node(first), 6)
    assert says(made, Marker.HOOK, alive=False, reason="installs", hold_seconds=70.0) == []
    assert says(made, alive=False, reason="longer")


def test_fields_that_a_node_has_already_are_not_written() -> None:
    made = world(Node(alive=True, bootenv="local"))
    assert says(made, alive=True, bootenv="local") == []


def test_a_machine_that_does_not_come_back_to_say_so_is_asked_again_after_a_while() -> None:
    found = node(says(world(Node(alive=True)), Marker.MACHINE, alive=False)).mark
    assert found is not None
    assert found.until == NOW + marks.MACHINE_SECONDS


def test_a_mark_that_would_be_over_or_on_what_is_always_alive_is_refused() -> None:
    with pytest.raises(Invalid, match="give a time in the future"):
        says(world(Node(alive=True)), alive=False, until=NOW)
    with pytest.raises(Invalid, match="always alive"):
        says(world(Node(virtual=True, alive=True)), alive=False)
    assert says(world(Node(virtual=True, alive=True)), Marker.HOOK, alive=False) == []


def test_a_node_that_is_marked_in_the_midst_of_a_run_is_as_one_that_died_in_it() -> None:
    found = says(world(Node(alive=True), begun=State.TRANSITION, done=State.ACTIVE), alive=False, reason="it smells")
    assert {role: state(found, role) for role in ("begun", "done")} == {"begun": State.TODO, "done": State.TODO}
    (run,) = [change.data for change in found if isinstance(change, Create)]
    assert isinstance(run, Run)
    assert (run.outcome, run.reason) == ("died", f"{N1}: marked by ann: it smells")


@pytest.mark.parametrize("found_by_probe", [True, False])
def test_a_probe_result_replaces_an_expired_mark(found_by_probe: bool) -> None:
    made = world(Node(mark=mark(until=2.0), addresses=("192.0.2.1",)))
    view = made.nodes[N1]
    found = node(liveness.revived(view, NOW) if found_by_probe else liveness.died(view, NOW, "connect: refused"))
    assert (found.alive, found.mark, found.reason) == (
        found_by_probe,
        None,
        None if found_by_probe else "connect: refused",
    )


@pytest.mark.parametrize("available", [True, False])
def test_a_run_result_does_not_replace_a_valid_mark(available: bool) -> None:
    """A run goes on where its node is not available, or while it is cancelled; somebody switches the machine off."""
    before = Node(mark=mark(), available=available, since=5.0)
    assert node(liveness.died(world(before).nodes[N1], NOW, "connect: refused")) == before


def test_explain_says_who_marked_the_node_why_and_until_when() -> None:
    made = world(Node(addresses=("192.0.2.1",), mark=mark(until=3600.0)), todo=State.TODO)
    vertex = made.nodes[N1].noderoles["todo"]
    (reason,) = [each for each in why_not(made, vertex, NOW) if each.code is Code.NODE_NOT_ALIVE]
    assert reason.text == f"node {N1} is not alive: marked by ann until 1970-01-01T01:00:00Z: new disk"
    assert reason.advice == f"annealers do not probe it meanwhile; to end the mark: nodepool-ocb node alive {N1}"
    (later,) = [each for each in why_not(made, vertex, 3600.0) if each.code is Code.NODE_NOT_ALIVE]
    assert "annealers probe it" in later.advice


# -- dead while it was not available --


def test_what_died_while_it_was_not_available_is_set_back_when_it_is_available() -> None:
    made = world(Node(available=False, reason="connect: refused"), done=State.ACTIVE, draft=State.PROPOSED)
    found = says(made, available=True)
    assert (node(found).available, node(found).alive, state(found, "done")) == (True, False, State.TODO)
    assert paths.noderole("draft", N1) not in records(found)


def test_a_node_that_becomes_available_and_is_marked_at_once_has_its_noderoles_set_back() -> None:
    made = world(Node(alive=True, available=False), done=State.ACTIVE)
    assert state(says(made, available=True, alive=False), "done") is State.TODO


def test_what_is_alive_again_before_it_is_available_keeps_its_noderoles() -> None:
    made = world(Node(alive=True, available=False), done=State.ACTIVE)
    dead = says(made, alive=False)
    write(made, dead)
    write(made, says(made, alive=True))
    found = says(made, available=True)
    assert list(records(dead)) == list(records(found)) == [paths.node(N1)]


def test_setting_back_beyond_one_transaction_goes_on_wherever_its_writer_stops() -> None:
    made = world(Node(available=False), **{f"r{number:04}": State.ACTIVE for number in range(2 * limits.MOST_CHANGES)})
    found = says(made, available=True)
    while node(found).dying:
        write(made, found)
        found = liveness.went_on(made.nodes[N1], NOW)
    write(made, found)
    assert {vertex.record.state for vertex in made.nodes[N1].noderoles.values()} == {State.TODO}


def test_another_address_ends_the_suspicion_of_the_former_one() -> None:
    suspicion = Suspicion(by="a2", reason="connect: timed out", since=1.0)
    found = node(says(world(Node(alive=True, suspicion=suspicion)), addresses=("10.0.0.9",)))
    assert (found.suspicion, found.addresses) == (None, ("10.0.0.9",))


def test_a_mark_ends_the_suspicion_before_it() -> None:
    suspicion = Suspicion(by="a2", reason="connect: timed out", since=1.0)
    found = node(says(world(Node(alive=True, suspicion=suspicion)), alive=False, reason="new disk"))
    assert (found.alive, found.suspicion) == (False, None)
