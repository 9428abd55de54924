"""Every change of a node calls on_node_change, whoever made it, and says which fields changed; notes of annealers do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import liveness
from nodepool_ocb.engine.hooks.node import noticed
from nodepool_ocb.engine.world import NodeView, Stored, World
from nodepool_ocb.model.aliveness import Mark, Marker
from nodepool_ocb.model.records import Change, Node, NodeRole, Role, Set, State, Suspicion

N1 = "n1.example.com"
SUSPICION = Suspicion(by="a1", reason="connect: refused", since=3.0)


def view(node: Node, *hooks: str) -> NodeView:
    """A node with an ACTIVE noderole, in a world where a role has these hooks."""
    world = World()
    world.put(Stored(Role(barclamp="b", jig="noop", hooks=hooks), 0), "watched")
    world.put_node(N1, node, 5)
    world.put_noderole(N1, "watched", NodeRole(state=State.ACTIVE, since=0.0, generation=1), 7)
    return world.nodes[N1]


def node(changes: list[Change]) -> Node:
    (record,) = [change.data for change in changes if isinstance(change, Set) and isinstance(change.data, Node)]
    return record


@pytest.mark.parametrize(
    ("before", "decide", "fields"),
    [
        (Node(alive=True), lambda v: liveness.died(v, 9.0, "it burnt"), ("alive",)),
        (Node(alive=True, available=False), lambda v: liveness.died(v, 9.0, "it burnt"), ("alive",)),
        (Node(), lambda v: liveness.revived(v, 9.0), ("alive",)),
        (Node(), lambda v: liveness.revived(v, 9.0, ["ssh-ed25519 A"]), ("alive", "host_keys")),
        (Node(alive=True), lambda v: liveness.pinned(v, "ssh-ed25519 A"), ("host_keys",)),
        (Node(alive=True), lambda v: liveness.changed(v.world, v, 9.0, bootenv="install", alive=False), ("alive", "bootenv")),
    ],
)  # fmt: skip
def test_a_change_of_a_node_calls_the_hook_and_names_the_fields(
    before: Node, decide: Callable[[NodeView], list[Change]], fields: tuple[str, ...]
) -> None:
    after = node(decide(view(before, "on_node_change")))
    assert (after.hooks, after.changed) == (("on_node_change",), dict.fromkeys(fields, ""))
    unwatched = node(decide(view(before)))
    assert (unwatched.hooks, unwatched.changed) == ((), {})


@pytest.mark.parametrize(
    ("before", "decide"),
    [
        (Node(alive=True), lambda v: liveness.suspected(v, "a1", "connect: refused", 9.0)),
        (Node(alive=True, suspicion=SUSPICION), liveness.refuted),
        (Node(reason="connect: refused"), lambda v: liveness.died(v, 9.0, "resolve: no such name")),
    ],
)
def test_notes_between_annealers_call_no_hook(before: Node, decide: Callable[[NodeView], list[Change]]) -> None:
    after = node(decide(view(before, "on_node_change")))
    assert after != before
    assert (after.hooks, after.changed) == ((), {})


def test_a_change_that_changes_nothing_writes_nothing() -> None:
    mark = Mark(kind=Marker.HOOK, by="installer", reason="installs", since=3.0)
    same = view(Node(bootenv="install", mark=mark, since=3.0), "on_node_change")
    word = {"alive": False, "reason": "installs"}
    assert liveness.changed(same.world, same, 9.0, marker=Marker.HOOK, bootenv="install", **word) == []


def test_changes_add_up_until_the_hook_has_run() -> None:
    pending = view(Node(alive=True, hooks=("on_node_change",), changed={"bootenv": "dhcp"}), "on_node_change")
    after = node(liveness.died(pending, 9.0, "it burnt"))
    assert (after.hooks, after.changed) == (("on_node_change",), {"bootenv": "dhcp", "alive": ""})


def test_what_the_hook_of_a_role_changed_is_told_to_the_others_alone() -> None:
    alone, before, after = view(Node(), "on_node_change").world, Node(), Node(bootenv="install")
    assert noticed(alone, before, after, {"bootenv": "watched"}) == after, "nobody else has the hook"
    assert noticed(alone, before, after, {"bootenv": "other"}).changed == {"bootenv": "other"}
    assert noticed(alone, before, replace(after, rack="r1"), {"bootenv": "watched"}).hooks == ("on_node_change",)


def test_a_death_writes_no_more_for_its_hook() -> None:
    assert [change.path for change in liveness.died(view(Node(alive=True), "on_node_change"), 9.0, "it burnt")] == [
        change.path for change in liveness.died(view(Node(alive=True)), 9.0, "it burnt")
    ]
