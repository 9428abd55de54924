"""Parents that a rollout commits after their children."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from nodepool_ocb.engine.world import World
from nodepool_ocb.rollout.plan import begin
from nodepool_ocb.rollout.precedence import late, sequence
from nodepool_ocb.rollout.selectors import inventory
from nodepool_ocb.rollout.strategy import Group, Strategy
from nodepool_ocb.views.rollouts import strategies
from tests.rollout.test_rollout_observing import world

APP, DB = "app@n1.x.y", "db@n2.x.y"
BEHIND = {APP: [DB]}
SERIAL: dict[str, Any] = {}
SIDE_BY_SIDE = {"parallel_groups": 2}


def sentences(there: World, groups: list[dict[str, Any]], rules: Mapping[str, Any]) -> list[str]:
    named = [{"critical": True, **group} for group in groups]
    strategy = msgspec.convert({"groups": named, **rules}, Strategy)
    return strategies.late(list(late(there, "lab", begin(strategy, inventory(there, "lab"), 0.0))))


def of(name: str, node: str, *above: str) -> dict[str, Any]:
    return {"name": name, "selectors": [{"node_names": [node]}], "depends_on": list(above)}


@pytest.mark.parametrize(
    ("groups", "rules", "end"),
    [
        ([of("one", "n1"), of("two", "n2")], SERIAL, "group two commits later; let group one depend on group two"),
        ([of("two", "n2"), of("one", "n1")], SERIAL, None),
        ([of("one", "n1", "two"), of("two", "n2")], SERIAL, None),
        ([of("one", "n1"), of("two", "n2")], SIDE_BY_SIDE, None),
        (
            [of("one", "n1"), of("mid", "n3", "one"), of("two", "n2", "mid")],
            SIDE_BY_SIDE,
            "group two commits later; let group one depend on group two",
        ),
        ([{"name": "one"}], SERIAL, None),
        ([{"name": "one", "batches": [{"nodes": 1}]}], SERIAL, "is committed in a later batch of this group"),
        (
            [{"name": "one"}],
            {"phases": [{"name": "prepare", "roles": ["app"]}, {"name": "deploy"}]},
            "is committed in a later phase of this group",
        ),
        (
            [of("one", "n1")],
            SERIAL,
            "is PROPOSED, and which no group and phase commits; commit it first, or select its node",
        ),
    ],
)
def test_a_parent_that_comes_later_is_named(
    groups: list[dict[str, Any]], rules: dict[str, Any], end: str | None
) -> None:
    there = world({APP: "PROPOSED", DB: "PROPOSED", "x@n3.x.y": "PROPOSED"}, BEHIND)
    wanted = [] if end is None else [f"group one: {APP} waits for {DB}, which {end}"]
    assert sentences(there, groups, rules) == wanted


@pytest.mark.parametrize("state", ["ACTIVE", "TODO", "ERROR"])
def test_a_parent_that_is_committed_already_is_no_matter_of_turns(state: str) -> None:
    there = world({APP: "PROPOSED", DB: state}, BEHIND)
    assert sentences(there, [of("one", "n1")], SERIAL) == []


def test_of_many_only_some_are_named() -> None:
    names = [f"app@n{number}.x.y" for number in range(10, 40)]
    there = world({**dict.fromkeys(names, "PROPOSED"), DB: "PROPOSED"}, {name: [DB] for name in names})
    groups = [{"name": "one", "selectors": [{"node_names": [f"n{number}" for number in range(10, 40)]}]}]
    found = sentences(there, groups, SERIAL)
    assert len(found) == strategies.SHOWN + 1
    assert found[-1] == "10 more noderoles wait for parents that come later"


def test_groups_begin_in_the_order_of_the_document_as_far_as_they_depend() -> None:
    groups = [Group(name="c", depends_on=("a",)), Group(name="b"), Group(name="a")]
    assert sequence(groups) == ["b", "a", "c"]


@pytest.mark.parametrize("state", ["ACTIVE", "TODO", "ERROR"])
def test_a_child_that_is_committed_already_waits_for_no_turn(state: str) -> None:
    there = world({APP: state, DB: "PROPOSED"}, BEHIND)
    assert sentences(there, [of("one", "n1"), of("two", "n2")], SERIAL) == []
