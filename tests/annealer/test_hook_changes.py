"""What the hooks of two roles want of one node or noderole: merged; the deeper role counts where they contradict each other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from nodepool_ocb.catalogue.code import Hooked, Role
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Node, State
from nodepool_ocb.model.records import Role as RoleRecord
from nodepool_ocb_annealer.hooks import calls
from nodepool_ocb_annealer.hooks.hook_changes import NODE, merge
from nodepool_ocb_annealer.hooks.installation import InstalledCode
from nodepool_ocb_annealer.hooks.job import Done
from nodepool_ocb_annealer.hooks.nodes import NodeHooks
from tests.engine import worlds

SEEN = Node(bootenv="local", labels={"site": "a", "old": "x"}, hints={"mac": "1"}, tags=("t",))


def of(role: str, node: dict[str, Any] | None = None, systems: dict[str, Any] | None = None) -> Hooked:
    return Hooked("n1", SEEN, role=role, set_node=node or {}, set_system=systems or {})


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ({"bootenv": "install"}, {"rack": "r1"}, {"bootenv": "install", "rack": "r1"}),
        ({"bootenv": "install"}, {"bootenv": "install"}, {"bootenv": "install"}),
        (
            {"labels": {"site": "b", "old": "x"}},
            {"labels": {"site": "a", "old": None}},
            {"labels": {"site": "b"}},
        ),
        ({"labels": {"b": "2"}}, {}, {"labels": {"site": "a", "old": "x", "b": "2"}}),
        ({"labels": {"none": None}}, {}, {"labels": {"site": "a", "old": "x"}}),
        ({"labels": {"b": "2"}}, {"labels": {"c": "3"}}, {"labels": {"site": "a", "old": "x", "b": "2", "c": "3"}}),
        (
            {"hints": {"ip": [4]}},
            {"hints": {"mac": "2"}},
            {"hints": {"mac": "2", "ip": [4]}},
        ),
    ],
)
def test_fields_of_one_node_are_merged(first: dict[str, Any], second: dict[str, Any], merged: dict[str, Any]) -> None:
    wishes = merge(SEEN, [of("dns", first), of("dhcp", second)])
    assert (wishes.node, wishes.contradictions) == (merged, {})


def test_a_key_that_came_since_a_hook_looked_stays() -> None:
    now = Node(hints={"mac": "1", "new": True})
    assert merge(now, [of("dns", {"hints": {"mac": "2"}})]).node == {"hints": {"mac": "2", "new": True}}


def test_attributes_of_one_noderole_are_merged() -> None:
    one, two = {"db@n1": {"a": {"x": 1}, "l": [1]}}, {"db@n1": {"a": {"y": 2}}, "db@n2": {"a": 3}}
    wishes = merge(SEEN, [of("dns", systems=one), of("dhcp", systems=two)])
    assert wishes.systems == {"db@n1": {"a": {"x": 1, "y": 2}, "l": [1]}, "db@n2": {"a": 3}}
    assert wishes.contradictions == {}


def test_of_two_that_contradict_each_other_the_deeper_role_counts_and_that_is_said() -> None:
    first = of("dns", {"bootenv": "a", "labels": {"site": "b", "old": "x"}}, {"db@n1": {"a": {"x": 1}}})
    second = of("dhcp", {"bootenv": "b", "labels": {"site": "c", "old": "x"}}, {"db@n1": {"a": {"x": 2}}})
    wishes = merge(SEEN, [first, second])
    assert wishes.node == {"bootenv": "b", "labels": {"site": "c", "old": "x"}}
    assert wishes.systems == {"db@n1": {"a": {"x": 2}}}
    said = "roles dns and dhcp set {} differently; the value of dhcp counts"
    assert wishes.contradictions == {
        NODE: [said.format("bootenv"), said.format("labels.site")],
        "db@n1": [said.format("a/x")],
    }


@pytest.mark.parametrize(
    ("wish", "refused"),
    [
        ({"alive": False, "reason": "installs", "hold_seconds": 60.0, "rack": "r1"}, None),
        ({"bootenv": 7}, "a hook cannot set this of a node"),
        ({"labels": {"b": 2}}, "a hook cannot set this of a node"),
        ({"labels": ["b"]}, "a hook cannot set this of a node"),
        ({"hooks": ()}, "a hook cannot set hooks of a node"),
        ({"nonsense": 1}, "a hook cannot set nonsense of a node"),
    ],
)
def test_what_a_node_cannot_have_fails_the_hook_that_wants_it(
    wish: dict[str, Any], refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wishing(Role):
        def on_node_change(self, hooked: Hooked) -> None:
            hooked.set_node.update(wish)

    monkeypatch.setattr(calls, "find", lambda name, _: Wishing(name))
    error = calls.call("b", "on_node_change", of("dns"))
    assert (error is None) if refused is None else refused in str(error)


def test_a_list_that_a_hook_sets_is_the_tuple_that_the_node_has_already(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tags(Role):
        def on_node_change(self, hooked: Hooked) -> None:
            hooked.set_node["tags"] = ["t"]

    monkeypatch.setattr(calls, "find", lambda name, _: Tags(name))
    hooked = of("tags")
    assert calls.call("b", "on_node_change", hooked) is None
    assert hooked.set_node == {"tags": SEEN.tags}


def test_a_hook_changes_the_labels_that_it_names_and_takes_those_away_that_it_sets_to_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Labels(Role):
        def on_node_change(self, hooked: Hooked) -> None:
            hooked.set_node["labels"] = {"b": "2", "old": None}

    monkeypatch.setattr(calls, "find", lambda name, _: Labels(name))
    hooked = of("labels")
    assert calls.call("b", "on_node_change", hooked) is None
    assert merge(replace(SEEN, labels={"person": "me", "old": "x"}), [hooked]).node == {
        "labels": {"person": "me", "b": "2"}
    }


def test_that_a_hook_of_a_node_has_run_is_written_last() -> None:
    """What it wants may be more than a transaction: where a part is refused, the hook runs again."""
    world = worlds.world()
    world.put(Stored(RoleRecord(barclamp="b", jig="noop", hooks=("on_node_change",)), 0), "watched")
    worlds.put(world, "watched@n1", State.ACTIVE)
    world.put_node("n1", Node(alive=True, hooks=("on_node_change",)), 3)
    context: Any = SimpleNamespace(world=world, session=SimpleNamespace(now=lambda: 1.0), identity="a")
    job = NodeHooks(context, cast(InstalledCode, SimpleNamespace(has=lambda *_: True))).job("n1")
    assert job is not None
    asked = Hooked("n1", world.nodes["n1"].record, role="watched", set_node={"rack": "r1"}, refresh=["watched@n1"])
    changes = job.write(Done([asked], None, {}))
    assert [change.path for change in changes] == [paths.noderole("watched", "n1"), paths.node("n1")]
