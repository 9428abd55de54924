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
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.jigs.jig import Succeeded
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Former, Given, Json, Node, NodeRole, Set, State
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


def test_what_a_jig_adds_is_written_to_the_wall() -> None:
    assert wall({"a": 1, "b": 2}) == [Create(WALL, {"b": 2})]
    assert wall({"a": 1, "b": 2}, znode(WALL, {"c": 3})) == [Set(WALL, {"c": 3, "b": 2}, 3)]


def test_a_wall_that_stays_the_same_is_not_written() -> None:
    assert wall({"a": 1}) == []
    assert wall({"a": 1, "b": 2}, znode(WALL, {"b": 2})) == []
    assert wall({"a": 1}, znode(WALL, {"b": 2})) == []


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
    sent = attributes.Sent(Opened(), judged)
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
    sent = attributes.Sent(Opened(), judged)
    read: attributes.Blobs = {WALL: None, GIVEN: znode(GIVEN, {"schema": 1, "jig": "script"})}
    found = attributes.results(cast("Grant", grant), read, sent, Secrets(), Succeeded({}))
    assert (found.former is not None) is notes
    if found.former is not None:
        assert found.smaller.former == Former(given=6, reason=attributes.NO_ROOM)
        assert found.changes != found.smaller.changes
