"""What of a jig's answer is written below its noderole: its wall, and what it was given."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import attributes as blobs
from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.jigs.jig import Succeeded
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Former, Given, Json, Node, NodeRole, Role, Set, State
from nodepool_ocb.secrecy.opening import Opened, Secrets
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Znode
from nodepool_ocb_annealer.runs import attributes

if TYPE_CHECKING:
    from nodepool_ocb.engine.claim import Grant

NODE = "n1.example.com"
WALL, GIVEN = paths.wall("app", NODE), paths.given("app", NODE)


def vertex() -> Vertex:
    made = World()
    made.put_node(NODE, Node(), 0)
    return made.put_noderole(NODE, "app", NodeRole(state=State.TRANSITION, since=0.0), 0)


def znode(path: str, content: Any) -> Znode:
    return Znode(path, msgspec.json.encode(content), 3, 0)


def wall(returned: Mapping[str, Json], before: Znode | None = None) -> list[Change]:
    """What is written after a jig was sent ``a`` and gave this back."""
    return attributes.wall_changes(vertex(), {WALL: before}, lambda _: blobs.wall({"a": 1}, returned))


def test_attributes_added_by_a_jig_are_written_to_the_wall() -> None:
    assert wall({"a": 1, "b": 2}) == [Create(WALL, {"b": 2})]


def test_the_attributes_that_a_run_returns_replace_the_wall() -> None:
    assert wall({"a": 1, "b": 2}, znode(WALL, {"c": 3})) == [Set(WALL, {"b": 2}, 3)]
    assert wall({"a": 1}, znode(WALL, {"c": 3})) == [Set(WALL, {}, 3)]
    assert wall({"a": 1, "b": True}, znode(WALL, {"b": 1})) == [Set(WALL, {"b": True}, 3)]


def test_a_wall_that_stays_the_same_is_not_written() -> None:
    assert wall({"a": 1}) == []
    assert wall({"a": 1, "b": 2}, znode(WALL, {"b": 2})) == []


def test_a_wall_that_cannot_be_read_is_written_over_with_the_version_that_was_read() -> None:
    assert wall({"a": 1, "b": 2}, Znode(WALL, b"{", 3, 0)) == [Set(WALL, {"b": 2}, 3)]


def given(now: Given, before: Znode | None = None) -> list[Change]:
    return attributes.given_changes(vertex(), {GIVEN: before}, inputs.Judged(7, now))


def test_what_a_run_was_given_is_kept_in_the_place_of_what_was_given_before() -> None:
    now = Given(jig="script", attributes={"a": 1})
    assert given(now) == [Create(GIVEN, now)]
    assert given(now, znode(GIVEN, {"schema": 1, "jig": "script"})) == [Set(GIVEN, now, 3)]
    assert given(now, Znode(GIVEN, b"{", 3, 0)) == [Set(GIVEN, now, 3)]


def test_nothing_is_kept_of_a_run_that_was_given_nothing_but_what_was_kept_before_goes() -> None:
    assert given(Given(jig="test")) == []
    assert given(Given(jig="test"), znode(GIVEN, {"schema": 1, "jig": "script"})) == [Set(GIVEN, Given(jig="test"), 3)]


def test_what_is_kept_is_written_as_a_record_that_is_read_again() -> None:
    keep = inputs.kept(Given(jig="script", attributes={"a": "x" * 1000, "b": 1.0}, beside={"c/d": True}))
    assert keep is not None
    read = codec.decode(Given, Znode(GIVEN, codec.encode(keep), 0, 0))
    assert read == keep
    assert len(read.attributes["a"]) < 100


def test_what_is_too_large_to_be_kept_says_so() -> None:
    keep = inputs.kept(Given(jig="script", attributes={str(each): "x" * 100 for each in range(1000)}))
    assert keep == Given(jig="script", reason="it was too large to be kept")


@pytest.mark.parametrize("ordered", [True, False])
def test_of_a_run_that_began_with_something_else_it_is_not_known_what_it_was_given(ordered: bool) -> None:
    grant = SimpleNamespace(vertex=vertex(), record=vertex().record)
    judged = inputs.Judged(7, Given(jig="script", attributes={"a": 1}))
    read: attributes.Blobs = {WALL: None, GIVEN: None}
    sent = attributes.JigInputs(Opened(), judged)
    found = attributes.results(cast("Grant", grant), read, sent, Secrets(), Succeeded({"b": 2}, ordered=ordered))
    assert list(found.wall) == [Create(WALL, {"b": 2})]
    (kept,) = found.given
    if ordered:
        assert (found.number, kept.data) == (7, judged.given)
    else:
        assert (found.number, kept.data) == (inputs.UNKNOWN, Given(jig="script", reason=attributes.TAKEN_OVER))


def noted(number: int, now: Given, before: Znode | None) -> Former:
    return attributes.former_of(vertex(), number, {GIVEN: before}, inputs.Judged(7, now))


def test_a_run_notes_how_the_one_before_it_was_given_something_else() -> None:
    now = Given(jig="script", attributes={"a": 2})
    before = znode(GIVEN, {"schema": 1, "jig": "script", "attributes": {"a": 1}})
    assert noted(6, now, before) == Former(given=6, changes=((("attributes", "a"), 1),))
    nothing = inputs.of_nothing("script").number
    assert noted(nothing, now, None) == Former(given=nothing, gone=(("attributes",),))
    assert noted(6, now, None) == Former(given=6, reason=attributes.NOTHING_KEPT)
    spoiled = noted(6, now, Znode(GIVEN, b"{", 3, 0))
    assert (spoiled.changes, bool(spoiled.reason)) == ((), True)


@pytest.mark.parametrize(("number", "notes"), [(0, False), (7, False), (6, True)])
def test_it_notes_that_where_there_was_one_and_it_was_given_something_else(number: int, notes: bool) -> None:
    grant = SimpleNamespace(vertex=vertex(), record=replace(vertex().record, given=number))
    judged = inputs.Judged(7, Given(jig="script", attributes={"a": 1}))
    sent = attributes.JigInputs(Opened(), judged)
    read: attributes.Blobs = {WALL: None, GIVEN: znode(GIVEN, {"schema": 1, "jig": "script"})}
    found = attributes.results(cast("Grant", grant), read, sent, Secrets(), Succeeded({}))
    assert (found.former is not None) is notes
    if found.former is not None:
        assert found.smaller.former == Former(given=6, reason=attributes.NO_ROOM)
        assert found.changes != found.smaller.changes


DISKS = {"disks": {"sda": "yes", "sdb": "yes"}}
#: what a run returns → the wall after it; the wall before it is DISKS, and the role's default is a/b = 1
RETURNED: dict[str, tuple[Succeeded, Mapping[str, Json]]] = {
    "one of both": (Succeeded({}, written={"disks": {"sda": "yes"}}), {"disks": {"sda": "yes"}}),
    "the same again": (Succeeded({}, written=DISKS), DISKS),
    "nothing, by writes": (Succeeded({"a": {"b": 1}, **DISKS}, written={}), {}),
    "what others say already": (Succeeded({}, written={"a": {"b": 1}}), {}),
    "something other than others say": (Succeeded({}, written={"a": {"b": 2}}), {"a": {"b": 2}}),
    "its view, as it was": (Succeeded({"a": {"b": 1}, **DISKS}), DISKS),
    "its view, without a disk": (Succeeded({"a": {"b": 1}, "disks": {"sdb": "yes"}}), {"disks": {"sdb": "yes"}}),
    "its view, without its own": (Succeeded({"a": {"b": 1}}), {}),
}


@pytest.mark.parametrize("returned", RETURNED)
def test_the_wall_is_what_the_newest_run_returned(returned: str) -> None:
    outcome, after = RETURNED[returned]
    assert _wall_after(outcome, DISKS) == after
    assert _wall_after(outcome, after) == after, "the same run again"


def _wall_after(outcome: Succeeded, before: Mapping[str, Json], secrets: Secrets | None = None) -> Mapping[str, Json]:
    bound = vertex()
    role = Role(barclamp="b", jig="script", template={"a": {"b": 1}})
    bound.node.world.put(Stored(role, 0), "app")
    sources, blobs = inputs.sources(bound.node.world, bound, role), {WALL: before}
    opened = (secrets or Secrets()).opened(inputs.visible(inputs.layers(sources, blobs)))
    grant = cast("Grant", SimpleNamespace(vertex=bound, record=bound.record))
    read = {WALL: znode(WALL, before), GIVEN: None}
    changes = attributes.results(
        grant, read, attributes.sent(sources, blobs, opened), secrets or Secrets(), outcome
    ).wall
    return cast("Mapping[str, Json]", cast("Set", changes[0]).data) if changes else before
