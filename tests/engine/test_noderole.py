"""The state machine: its table, its rule restated slowly, and stories of small graphs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodepool_ocb.engine.noderole import AFTER, Event, after, apply, satisfied, settle
from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.drift import PendingCheck
from nodepool_ocb.model.records import NodeRole, Role, State
from tests.fixtures.examples import examples

Edges = Sequence[tuple[int, int]]  # (parent, child), parent < child


def graph(states: Sequence[State], edges: Edges, **fields: Sequence[object]) -> list[Vertex]:
    """Noderoles r0, r1, ... on one node."""
    world = World()
    for number, state in enumerate(states):
        more = {name: values[number] for name, values in fields.items()}
        parents = tuple(f"r{parent}@n" for parent, child in edges if child == number)
        world.put_noderole("n", f"r{number}", NodeRole.of(state=state, since=0.0, parents=parents, **more))  # type: ignore[arg-type]
    return [world.nodes["n"].noderoles[f"r{number}"] for number in range(len(states))]


def settled_slowly(records: dict[int, NodeRole], edges: Edges) -> dict[int, State]:
    """The rule of the design, restated: in rounds over everything, until nothing changes."""
    states = {number: record.state for number, record in records.items()}
    while True:
        before = dict(states)
        for number, record in records.items():
            if states[number] in (State.PROPOSED, State.TRANSITION):
                continue
            above = [parent for parent, child in edges if child == number]
            well = all(
                states[parent] is State.ACTIVE or (states[parent] is State.TRANSITION and records[parent].refresh)
                for parent in above
            )
            if not well:
                states[number] = State.BLOCKED
            elif states[number] is State.BLOCKED:
                states[number] = State.TODO
            if states[number] is State.TODO and record.once:
                states[number] = State.ACTIVE if record.once == "done" else State.ERROR
        if states == before:
            return states


EDGES = list(itertools.combinations(range(3), 2))
GRAPHS3 = [
    [edge for edge, there in zip(EDGES, bits, strict=True) if there] for bits in itertools.product((0, 1), repeat=3)
]


@pytest.mark.parametrize("edges", GRAPHS3, ids=str)
def test_the_rule_restated_slowly_agrees_over_all_states_of_small_graphs(edges: Edges) -> None:
    for states in itertools.product(State, repeat=3):
        for refresh in ((False, False, False), (True, True, True)):
            vertices = graph(states, edges, refresh=refresh)
            moved = settle({}, 1.0, also=vertices)
            after_ = {n: moved.get(v, v.record).state for n, v in enumerate(vertices)}
            assert after_ == settled_slowly({n: v.record for n, v in enumerate(vertices)}, edges)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Vertex], Edges]:
    size = draw(st.integers(1, 8))
    edges = draw(st.lists(st.sampled_from(list(itertools.combinations(range(size), 2)) or [(0, 0)]), unique=True))
    edges = [edge for edge in edges if edge[0] != edge[1]]
    states = draw(st.lists(st.sampled_from(State), min_size=size, max_size=size))
    once = draw(st.lists(st.sampled_from([None, None, None, "done"]), min_size=size, max_size=size))
    vertices = graph(states, edges, once=once)
    return vertices, edges


@examples(250, long=1000)
@given(graphs(), st.data())
def test_after_any_prefix_of_the_changes_deciding_again_ends_in_the_same_place(
    drawn: tuple[list[Vertex], Edges], data: st.DataObject
) -> None:
    vertices, edges = drawn
    put_all(vertices, settle({}, 0.5, also=vertices))
    possible = [(v, event) for v in vertices for event in Event if (v.record.state, event) in AFTER]
    if not possible:
        return
    vertex, event = data.draw(st.sampled_from(possible))
    if event in (Event.CLAIM, Event.WITHDRAW) and vertex.record.state is State.ACTIVE:
        return
    if event is Event.CHECKED or (
        event is Event.REFRESH and vertex.record.state is State.TRANSITION
    ):  # of a check alone, and that moves nobody else
        return
    if event is Event.WITHDRAW:
        vertex.record = vertex.record.amended(redeploy=True)
    own = {vertex: after(vertex.record, event, 1.0)}
    whole = settle(own, 1.0)
    expected = {v.name: whole.get(v, v.record).state for v in vertices}
    slowly = settled_slowly({n: own.get(v, v.record) for n, v in enumerate(vertices)}, edges)
    assert expected == {f"r{n}@n": state for n, state in slowly.items()}

    first = [(v, r) for v, r in whole.items() if v is vertex]
    rest = [(v, r) for v, r in whole.items() if v is not vertex]
    written = data.draw(st.integers(0, len(rest)))
    put_all(vertices, dict(first + rest[:written]))
    again = settle({}, 2.0, also=vertices)
    assert {v.name: again.get(v, v.record).state for v in vertices} == expected


def put_all(vertices: Sequence[Vertex], records: dict[Vertex, NodeRole]) -> None:
    """What a committed transaction makes of the graph."""
    for vertex in vertices:
        vertex.record = records.get(vertex, vertex.record)
    for vertex in vertices:
        vertex.waiting = sum(not satisfied(parent.record) for parent in vertex.parents)


@examples(125, long=500)
@given(graphs(), st.data())
def test_the_counters_of_the_world_stay_what_counting_would_give(
    drawn: tuple[list[Vertex], Edges], data: st.DataObject
) -> None:
    vertices, _ = drawn
    world = World()
    order = data.draw(st.permutations(vertices))
    for vertex in order:
        world.put_noderole("n", vertex.role, vertex.record)
    for vertex in data.draw(st.lists(st.sampled_from(vertices), max_size=8)):
        state = data.draw(st.sampled_from([*State, None]))
        if state is None:
            world.drop_noderole("n", vertex.role)
        else:
            above = [each.name for each in vertices[: vertices.index(vertex)]]
            parents = tuple(data.draw(st.lists(st.sampled_from(above), unique=True))) if above else ()
            world.put_noderole("n", vertex.role, replace(vertex.record, state=state, parents=parents))
    for vertex in world.vertices():
        present = {parent.name: parent for parent in vertex.parents}
        missing = [name for name in vertex.record.parents if name not in present]
        assert vertex.waiting == len(missing) + sum(not satisfied(p.record) for p in present.values())
        assert all(parent.children.count(vertex) == 1 for parent in vertex.parents)
        assert all(vertex in child.parents for child in vertex.children)
        assert not any(world.vertex(name) for name in missing)


def ready_for(record: NodeRole, event: Event) -> NodeRole:
    """With what the event asks for beside the state: a refresh, none, a check, or a redeployment."""
    during = event is Event.REFRESH and record.state is State.TRANSITION
    check = PendingCheck() if event is Event.CHECKED or during else None
    return record.amended(refresh=event is not Event.CHECK, check=check, redeploy=event is Event.WITHDRAW)


def test_a_pair_that_is_not_in_the_table_is_refused() -> None:
    for state, event in itertools.product(State, Event):
        record = ready_for(NodeRole(state=state, since=0.0), event)
        if (state, event) in AFTER:
            assert after(record, event, 1.0).state is AFTER[state, event]
        else:
            with pytest.raises(Conflict):
                after(record, event, 1.0)


def test_every_entry_into_todo_raises_the_generation_and_a_take_over_does_not() -> None:
    for (state, event), then in AFTER.items():
        before = ready_for(NodeRole(state=state, since=0.0, generation=7), event)
        raised = after(before, event, 1.0).generation - 7
        entered = then is State.TODO or (then is State.ACTIVE and event in (Event.REFRESH, Event.CHECK))
        assert raised == entered, (state, event)


def test_an_error_blocks_everything_below_and_mending_it_runs_all_again() -> None:
    top, middle, bottom = vertices = graph([State.TRANSITION, State.ACTIVE, State.ACTIVE], [(0, 1), (1, 2)])
    top.record = top.record.amended(refresh=True)
    put_all(vertices, {})
    moved = apply({top: Event.FAIL}, 1.0, reason="exit 1")
    assert [moved[v].state for v in vertices] == [State.ERROR, State.BLOCKED, State.BLOCKED]
    put_all(vertices, moved)
    put_all(vertices, apply({top: Event.RETRY}, 2.0))
    for vertex in (top, middle, bottom):
        put_all(vertices, apply({vertex: Event.CLAIM}, 3.0))
        put_all(vertices, apply({vertex: Event.SUCCEED}, 4.0))
    assert {v.record.state for v in vertices} == {State.ACTIVE}


def test_a_child_that_ends_under_a_failed_ancestor_is_not_active() -> None:
    top, child = vertices = graph([State.ERROR, State.TRANSITION], [(0, 1)])
    put_all(vertices, {})
    assert apply({child: Event.SUCCEED}, 1.0)[child].state is State.BLOCKED
    assert top.record.state is State.ERROR


def test_a_destructive_role_that_was_done_is_active_again_without_a_run_when_its_machine_comes_back() -> None:
    below, destructive = vertices = graph([State.ACTIVE, State.ACTIVE], [(0, 1)], once=[None, "done"])
    moved = apply(dict.fromkeys(vertices, Event.NODE_DIED), 1.0)
    assert [moved[v].state for v in vertices] == [State.TODO, State.BLOCKED]
    put_all(vertices, moved)
    put_all(vertices, apply({below: Event.CLAIM}, 2.0))
    moved = apply({below: Event.SUCCEED}, 3.0)
    assert moved[destructive].state is State.ACTIVE


def test_a_destructive_role_of_unknown_outcome_is_an_error_and_never_starts_by_itself() -> None:
    (destructive,) = vertices = graph([State.TRANSITION], [], once=["started"])
    for event in (Event.LOSE, Event.NODE_DIED):
        moved = apply({destructive: event}, 1.0)
        assert moved[destructive].state is State.ERROR
        assert "not known" in (moved[destructive].reason or "")
    assert apply({destructive: Event.LOSE}, 1.0)[destructive].once == "started"
    put_all(vertices, apply({destructive: Event.LOSE}, 1.0))
    assert apply({destructive: Event.RETRY}, 2.0)[destructive].once is None


def test_a_hook_of_the_role_is_noted_when_its_state_is_entered() -> None:
    (vertex,) = graph([State.PROPOSED], [])
    role = Role(barclamp="b", jig="noop", hooks=("on_todo", "on_active"))
    vertex.node.world.put(Stored(role, 0), vertex.role)
    assert apply({vertex: Event.COMMIT}, 1.0)[vertex].hooks == ("on_todo",)


def test_a_destructive_role_that_is_skipped_was_not_run_so_its_hook_is_not_called() -> None:
    below, destructive = vertices = graph([State.TRANSITION, State.BLOCKED], [(0, 1)], once=[None, "done"])
    for vertex in vertices:
        vertex.node.world.put(Stored(Role(barclamp="b", jig="noop", hooks=("on_active",)), 0), vertex.role)
    moved = apply({below: Event.SUCCEED}, 1.0)
    assert [(moved[v].state, moved[v].hooks) for v in vertices] == [
        (State.ACTIVE, ("on_active",)),
        (State.ACTIVE, ()),
    ]
    put_all(vertices, moved | {destructive: moved[destructive].amended(state=State.TRANSITION, once="started")})
    assert apply({destructive: Event.SUCCEED}, 2.0)[destructive].hooks == ("on_active",), "this time it ran"


def test_a_run_that_is_to_be_ended_comes_to_an_error_and_to_nothing_else() -> None:
    running = NodeRole(state=State.TRANSITION, since=5.0, by="a1", run="r1", epoch=3, generation=2)
    cancelled = after(running, Event.CANCEL, 9.0, by="ann", reason="time is up")
    assert cancelled == running.amended(cancel_reason="time is up"), "who runs it, and since when, stays known"
    assert after(cancelled, Event.CANCEL, 9.5, reason="again").cancel_reason == "time is up"
    for event in (Event.SUCCEED, Event.DEFER, Event.LOSE):
        with pytest.raises(Conflict, match="time is up"):
            after(cancelled, event, 10.0)
    assert after(cancelled, Event.CLAIM, 10.0, by="a2").cancel_reason == "time is up", "whoever takes it over ends it"
    failed = after(cancelled, Event.FAIL, 10.0, reason="time is up")
    assert (failed.state, failed.cancel_reason, failed.generation) == (State.ERROR, None, 2)
    assert after(failed, Event.RETRY, 11.0).generation == 3


@pytest.mark.parametrize("back", [Event.WITHDRAW, Event.PROPOSE])
def test_a_redeployment_that_has_not_begun_can_be_taken_back_and_the_work_counts_as_done(back: Event) -> None:
    top, below = vertices = graph([State.ACTIVE, State.ACTIVE], [(0, 1)], once=["done", None])
    put_all(vertices, apply({top: Event.REDEPLOY}, 1.0))
    assert (top.record.state, top.record.once, top.record.redeploy) == (State.TODO, None, True)
    put_all(vertices, apply({top: Event.NODE_DIED}, 2.0))
    put_all(vertices, apply({top: back}, 3.0))
    if back is Event.PROPOSE:
        assert (top.record.state, below.record.state) == (State.PROPOSED, State.BLOCKED)
        put_all(vertices, apply({top: Event.COMMIT}, 4.0))
    assert (top.record.state, top.record.once, top.record.redeploy) == (State.ACTIVE, "done", False)
    assert (top.record.epoch, below.record.state) == (0, State.TODO)


def test_a_redeployment_that_was_claimed_cannot_be_withdrawn() -> None:
    (top,) = vertices = graph([State.ACTIVE], [], once=["done"])
    for event in (Event.REDEPLOY, Event.CLAIM, Event.DEFER):
        put_all(vertices, apply({top: event}, 1.0))
    with pytest.raises(Conflict, match="TODO cannot WITHDRAW"):
        apply({top: Event.WITHDRAW}, 2.0)


@pytest.mark.parametrize("once", [None, "done"])
def test_what_a_destructive_role_did_is_not_run_again_by_a_refresh(once: str | None) -> None:
    (vertex,) = graph([State.ACTIVE], [], once=[once])
    flags = () if once else ("destructive",)  # it says so now, or said so when it ran
    vertex.node.world.put(Stored(Role(barclamp="b", jig="script", flags=flags), 0), "r0")
    with pytest.raises(Conflict, match=r"r0@n: its role is destructive.*noderole redeploy r0@n"):
        apply({vertex: Event.REFRESH}, now=9.0)
