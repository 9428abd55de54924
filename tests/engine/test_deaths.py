"""The death of a machine sets its noderoles back, in as many transactions as it takes, and what it did not touch stays."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine import liveness, marks
from nodepool_ocb.engine.world import NodeView, Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Change, Create, Deployment, Node, NodeRole, Role, Run, Set, State

N1 = "n1.example.com"


def world(**states: State) -> World:
    """One node that is alive, with a noderole of each role in this state."""
    made = World()
    made.put(Stored(Deployment(parent=None), 0), "system")
    made.put_node(N1, Node(alive=True, host_keys=("ssh-ed25519 A",)), 5)
    made.put_fence(N1, 6)
    for name, state in states.items():
        made.put(Stored(Role(barclamp="b", jig="noop"), 0), name)
        running = {"run": "0000000001", "by": "other"} if state is State.TRANSITION else {}
        made.put_noderole(N1, name, NodeRole.of(state=state, since=0.0, generation=1, **running), 7)  # type: ignore[arg-type]
    return made


def records(changes: list[Change]) -> dict[str, object]:
    return {change.path: change.data for change in changes if isinstance(change, Set)}


def state(changes: list[Change], role: str) -> State:
    record = records(changes)[paths.noderole(role, N1)]
    assert isinstance(record, NodeRole)
    return record.state


def node(changes: list[Change]) -> Node:
    record = records(changes)[paths.node(N1)]
    assert isinstance(record, Node)
    return record


def test_a_death_sets_back_what_was_committed_and_leaves_what_is_proposed() -> None:
    made = world(done=State.ACTIVE, failed=State.ERROR, begun=State.TRANSITION, draft=State.PROPOSED)
    found = liveness.died(made.nodes[N1], 9.0, "it burnt", "me")
    assert (node(found).alive, node(found).reason, node(found).since, node(found).dying) == (
        False,
        "it burnt",
        9.0,
        False,
    )
    assert {role: state(found, role) for role in ("done", "begun")} == {"done": State.TODO, "begun": State.TODO}
    assert paths.noderole("draft", N1) not in records(found)
    (run,) = [change.data for change in found if isinstance(change, Create)]
    assert (run.outcome, run.reason) == ("died", f"{N1}: it burnt")  # type: ignore[union-attr]


def test_the_death_of_a_node_that_is_not_available_leaves_its_noderoles() -> None:
    made = world(done=State.ACTIVE)
    made.put_node(N1, Node(alive=True, available=False), 5)
    assert list(records(liveness.died(made.nodes[N1], 9.0, "it burnt"))) == [paths.node(N1)]


def test_a_death_beyond_one_transaction_goes_on_until_all_is_set_back() -> None:
    made = world(**{f"r{number:04}": State.ACTIVE for number in range(2 * limits.MOST_CHANGES)})
    view = made.nodes[N1]
    found = liveness.died(view, 9.0, "it burnt")
    seen = set(records(found))
    while node(found).dying:
        write(made, found)
        with pytest.raises(Conflict, match="is still setting back"):
            liveness.revived(view, 10.0)
        found = liveness.went_on(view, 10.0)
        assert not seen & (records(found).keys() - {paths.node(N1)}), "nothing twice"
        seen |= records(found).keys()
    write(made, found)
    assert {vertex.record.state for vertex in view.noderoles.values()} == {State.TODO}
    assert liveness.went_on(view, 11.0) == []


def test_a_death_beyond_one_transaction_accounts_in_the_first_for_the_run_that_its_annealer_ended() -> None:
    made = world(**{f"r{number:04}": State.ACTIVE for number in range(2 * limits.MOST_CHANGES)}, run=State.TRANSITION)
    vertex = made.nodes[N1].noderoles["run"]
    run = Run(annealer="me", started=0.0, ended=9.0, outcome="failed", generation=1, epoch=6)
    found = liveness.died(made.nodes[N1], 9.0, "it burnt", "me", ended=(vertex, run))
    assert node(found).dying
    assert Create(paths.run("run", N1, "0000000001"), run) in found
    assert state(found, "run") is State.TODO


def write(made: World, changes: list[Change]) -> None:
    for path, record in records(changes).items():
        if isinstance(record, NodeRole):
            made.put_noderole(N1, path.split("/")[-1], record, 8)
        elif isinstance(record, Node):
            made.put_node(N1, record, 8)


def test_a_node_that_is_set_dead_dies_and_one_that_is_dead_does_not_die_again() -> None:
    made = world(done=State.ACTIVE)
    view: NodeView = made.nodes[N1]
    found = liveness.changed(made, view, 9.0, by="ann", alive=False)
    assert (state(found, "done"), marks.why(node(found))) == (State.TODO, "marked by ann")
    write(made, found)
    assert paths.noderole("done", N1) not in records(liveness.changed(made, view, 10.0, alive=False))


def test_a_node_that_is_back_keeps_its_keys_and_forgets_why_it_died() -> None:
    made = world()
    made.put_node(N1, Node(alive=False, reason="it burnt", host_keys=("ssh-ed25519 A",)), 5)
    found = node(liveness.revived(made.nodes[N1], 9.0, ["ssh-ed25519 B"]))
    assert (found.alive, found.reason, found.host_keys, found.since) == (True, None, ("ssh-ed25519 A",), 9.0)


def test_another_reason_of_a_dead_node_leaves_the_time_of_its_death() -> None:
    made = world()
    made.put_node(N1, Node(alive=False, reason="timed out", since=3.0), 5)
    changed = node(liveness.died(made.nodes[N1], 9.0, "no route to host"))
    assert (changed.reason, changed.since) == ("no route to host", 3.0)


def test_another_change_of_a_dead_node_leaves_the_end_of_its_hold_to_annealers() -> None:
    """An installer's report changes where its machine boots: its verb writes no noderoles."""
    made = world(done=State.ACTIVE)
    made.put_node(N1, Node(alive=False, hold=Maintenance(by="ann", since=1.0, until=2.0)), 5)
    assert [each.path for each in liveness.changed(made, made.nodes[N1], 9.0, rack="r1")] == [paths.node(N1)]
    released = liveness.changed(made, made.nodes[N1], 9.0, hold=None)
    assert state(released, "done") is state(liveness.went_on(made.nodes[N1], 9.0), "done") is State.TODO
