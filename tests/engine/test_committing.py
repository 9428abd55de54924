"""Committing many at once: a plan of transactions, and a world that stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.engine import commands
from nodepool_ocb.engine.advancing import advance, copied
from nodepool_ocb.engine.claim import settling, written
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import limits
from nodepool_ocb.model.records import Change, NodeRole, Once, Role, Set, State
from tests.engine import worlds
from tests.fixtures.examples import examples


def test_every_noderole_is_written_once_with_the_version_that_the_parts_before_left() -> None:
    world = World()
    for number in range(400):
        parents = (f"r{number - 1}@n",) if number % 100 else ()
        world.put_noderole("n", f"r{number}", NodeRole(state=State.PROPOSED, since=0.0, parents=parents), 3)
    written: dict[str, int] = {}
    for part in commands.apply_to(world, list(world.vertices()), Event.COMMIT, 1.0):
        for change in part:
            assert isinstance(change, Set)
            assert change.version == written.get(change.path, 3)
            written[change.path] = change.version + 1
        advance(world, part)
    assert len(written) == 400
    assert {vertex.version for vertex in world.vertices()} == {4}
    assert {vertex.record.state for vertex in world.vertices()} == {State.TODO, State.BLOCKED}


def _slowly(world: World, events: dict[Event, list[str]]) -> list[list[Change]]:
    """The same plan, decided anew from the changed world after each transaction."""
    made: list[list[Change]] = []
    for event, names in events.items():
        meant = [v for v in map(world.vertex, names) if v is not None and commands.meant_for(v.record, event)]
        meant.sort(key=lambda vertex: (world.depth(vertex), vertex.name))
        while meant:
            part = [v for v in meant[: limits.MOST_CHANGES] if commands.meant_for(v.record, event)]
            moved = apply(dict.fromkeys(part, event), 1.0)
            changes = settling({v: moved[v] for v in part if v in moved} | moved)
            done = written(moved, changes)
            made += [changes] if changes else []
            advance(world, changes)
            left = [v for v in part if v in moved and v not in done] if done else []
            meant = left + meant[limits.MOST_CHANGES :]
    return made


_NODEROLES = st.lists(
    st.tuples(
        st.sampled_from(list(State)),
        st.booleans(),  # in a cluster
        st.sampled_from([None, "done", "started"]),
        st.sets(st.integers(0, 11), max_size=3),  # its parents, of those before it
        st.booleans(),  # that waits for the cluster
    ),
    min_size=2,
    max_size=12,
)


def _drawn(noderoles: list[tuple[State, bool, Once | None, set[int], bool]]) -> World:
    made = worlds.world()
    made.put_gate("system", "all", 1)
    names: list[str] = []
    for number, (state, member, once, above, waits) in enumerate(noderoles):
        parents = {names[each] for each in above if each < number}
        serves = ("all",) if member else ()
        parents |= {"all@*system"} if waits and not member else set()
        names.append(f"r{number:02}@n{number % 3}.x.y")
        worlds.put(made, names[-1], state, *sorted(parents), once=once, serves=serves)
    made.put(Stored(Role(barclamp="b", jig="noop", hooks=("on_todo", "on_proposed")), 0), "r01")
    return made


@examples(100, long=400)
@given(
    _NODEROLES, st.permutations([Event.COMMIT, Event.PROPOSE, Event.RETRY, Event.ALLOW]), st.sampled_from([2, 3, 40])
)
def test_a_plan_is_that_which_is_decided_anew_after_each_transaction(
    noderoles: list[tuple[State, bool, Once | None, set[int], bool]], order: list[Event], most: int
) -> None:
    world = copied(_drawn(noderoles))  # a copy of a copy has the children in the same order
    names = [vertex.name for vertex in world.vertices()]
    before = {vertex.name: (vertex.record, vertex.version, vertex.waiting) for vertex in world.vertices()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MOST_CHANGES", most)
        expected = _slowly(copied(world), dict.fromkeys(order, names))
        plan = list(commands.apply_all(world, {event: list(world.vertices()) for event in order}, 1.0))
    assert plan == expected
    assert {vertex.name: (vertex.record, vertex.version, vertex.waiting) for vertex in world.vertices()} == before
