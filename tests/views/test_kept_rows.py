"""Rows that were made before equal rows that are made now."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.records import Json, Node, NodeRole, State
from nodepool_ocb.views import keptrows, noderoles
from nodepool_ocb.views.keptrows import LEAST_KEPT, MOST_AT_ONCE, ROWS, KeptRows

STATES = [State.PROPOSED, State.BLOCKED, State.TODO, State.ACTIVE, State.ERROR]
CHANGES = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([*STATES, None, "alive"])), max_size=8)


def show(world: World, number: int, state: State, at: float) -> None:
    """``b`` waits for ``a`` of its node."""
    parents = () if number == 0 else (f"{'ab'[number - 1]}@n1.example.com",)
    record = NodeRole.of(state=state, since=at, deployment="lab", parents=parents, reason=f"it is {state}")
    world.put_noderole("n1.example.com", "abc"[number], record)


def records(world: World) -> dict[Vertex, NodeRole]:
    return {vertex: vertex.record for vertex in world.vertices()}


def whole(kept: KeptRows, world: World) -> list[dict[str, Json]]:
    found: list[dict[str, Json]] = msgspec.json.decode(b"[%b]" % b"".join(kept.whole(world.vertices)))
    return found


def quick(kept: KeptRows) -> bool:
    return kept.at_once


def grid(numbers: Iterable[int]) -> World:
    """ACTIVE noderoles of one node."""
    world = World()
    world.put_node("n1.example.com", Node(alive=True), 0)
    for number in numbers:
        world.put_noderole("n1.example.com", f"r{number:04}", NodeRole(state=State.ACTIVE, since=1.0, deployment="lab"))
    return world


@given(CHANGES)
def test_kept_rows_follow_their_records_their_parents_and_their_node(
    changes: list[tuple[int, State | str | None]],
) -> None:
    world, kept = World(), KeptRows()
    world.put_node("n1.example.com", Node(alive=False, since=0.0), 0)
    for number in range(3):
        show(world, number, State.TODO, 1.0)
    for at, (number, change) in enumerate(changes, 2):
        before = records(world)
        if isinstance(change, State):
            show(world, number, change, float(at))
        elif change == "alive":
            world.put_node("n1.example.com", Node(alive=True, since=float(at)), at)
        else:
            world.drop_noderole("n1.example.com", "abc"[number])
        after = records(world)
        kept.forget(
            vertex for vertex, record in (before | after).items() if before.get(vertex) is not after.get(vertex)
        )
        vertices = list(world.vertices())
        rows = kept.of(vertices)
        assert list(rows) == [noderoles.row(each) for each in sorted(vertices, key=lambda each: each.name)]
        expected = msgspec.json.decode(msgspec.json.encode(list(rows)))
        assert msgspec.json.decode(rows.json()) == whole(kept, world) == expected


def test_a_row_is_made_one_time_and_forgotten_after_its_noderole() -> None:
    world, kept = World(), KeptRows()
    world.put_node("n1.example.com", Node(alive=True), 0)
    show(world, 0, State.ACTIVE, 1.0)
    (first,) = kept.of(list(world.vertices()))
    assert kept.of(list(world.vertices()))[0] is first
    for _ in range(6):
        for number in range(LEAST_KEPT):
            record = NodeRole(state=State.ACTIVE, since=1.0, deployment="lab")
            world.put_noderole("n1.example.com", f"r{number}", record)
        kept.of(list(world.vertices()))
        for number in range(LEAST_KEPT):
            world.drop_noderole("n1.example.com", f"r{number}")
    assert kept.of(list(world.vertices()))[0] is first
    assert len(kept) < 5 * LEAST_KEPT


def test_a_noderole_in_the_place_of_another_is_shown() -> None:
    world, kept = World(), KeptRows()
    world.put_node("n1.example.com", Node(alive=True), 0)
    show(world, 0, State.ACTIVE, 1.0)
    kept.of(list(world.vertices()))
    world.drop_noderole("n1.example.com", "a")
    show(world, 1, State.ACTIVE, 1.0)
    assert [row.noderole for row in kept.of(list(world.vertices()))] == ["b@n1.example.com"]


# -- the whole world --


def test_only_the_part_of_a_changed_row_is_joined_again() -> None:
    world, kept = grid(range(3 * ROWS)), KeptRows()
    before = [*kept.whole(world.vertices)]
    record = NodeRole(state=State.ERROR, since=2.0, deployment="lab")
    kept.forget([world.put_noderole("n1.example.com", f"r{ROWS:04}", record)])
    after = kept.whole(world.vertices)
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]
    assert [row["state"] for row in whole(kept, world)] == ["ACTIVE"] * ROWS + ["ERROR"] + ["ACTIVE"] * (2 * ROWS - 1)


def test_a_waiting_row_follows_its_parent_of_another_part() -> None:
    world, kept = grid(range(ROWS)), KeptRows()
    parent = "r0000@n1.example.com"
    waiting = NodeRole(state=State.BLOCKED, since=1.0, deployment="lab", parents=(parent,))
    world.put_noderole("n1.example.com", "s", waiting)
    assert whole(kept, world)[-1]["reason"] is None
    record = NodeRole.of(state=State.ERROR, since=2.0, deployment="lab", reason="no disk")
    kept.forget([world.put_noderole("n1.example.com", "r0000", record)])
    assert whole(kept, world)[-1]["reason"] == f"its parent {parent} failed: no disk"


def test_a_list_with_many_rows_to_make_or_many_bytes_is_not_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world, kept = grid(range(MOST_AT_ONCE + 1)), KeptRows()
    assert not quick(kept)
    whole(kept, world)
    assert quick(kept)
    kept.forget(world.vertices())
    assert not quick(kept)
    whole(kept, world)
    kept.forget(
        [world.put_noderole("n1.example.com", "new", NodeRole(state=State.ACTIVE, since=1.0, deployment="lab"))]
    )
    assert not quick(kept)  # all names are sorted again
    whole(kept, world)
    monkeypatch.setattr(keptrows, "MOST_BYTES", 100)
    assert not quick(kept)
