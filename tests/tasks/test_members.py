"""Which nodes a task list means, and in which order."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model.records import Deployment, DeploymentState, Node
from nodepool_ocb.tasks import members


def world(**nodes: Node) -> World:
    made = World()
    made.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0), "system")
    made.put(Stored(Deployment(), 0), "site")
    made.put(Stored(Deployment(parent="site"), 0), "lab")
    for name, node in nodes.items():
        made.put_node(f"{name}.example.com", node, 0)
    return made


def lab(uid: str | None = None, *tags: str, **fields: object) -> Node:
    return Node(deployment="lab", labels={"uid": uid} if uid else {}, tags=tags, **fields)  # type: ignore[arg-type]


def uids(found: list[members.Member]) -> list[str]:
    return [each.uid for each in found]


def test_nodes_are_in_the_order_of_their_uids_and_numbers_count_by_their_values() -> None:
    found = members.members(world(a=lab("10", "controller"), b=lab("9"), c=lab()), "lab")
    assert uids(found) == ["9", "10", "c.example.com"]
    assert found[1].roles == ("controller",)


def test_nodes_of_other_deployments_and_virtual_ones_are_no_members() -> None:
    found = members.members(world(a=lab("1"), b=Node(), c=lab("3", virtual=True)), "lab")
    assert uids(found) == ["1"]


def test_the_admin_nodes_are_those_of_the_nearest_deployment_that_has_any() -> None:
    upper = {"m": Node(admin=True), "s": Node(deployment="site", admin=True, labels={"uid": "0"})}
    assert uids(members.members(world(a=lab("1"), **upper), "lab")) == ["0", "1"]
    assert uids(members.members(world(a=lab("1", admin=True), **upper), "lab")) == ["1"]


def test_two_nodes_of_one_uid_are_refused() -> None:
    with pytest.raises(Conflict, match="both have uid 1; give one of them another"):
        members.members(world(a=lab("1"), b=lab("1")), "lab")


def test_nodes_that_are_named_come_in_that_order_with_the_admin_nodes_behind() -> None:
    everyone = members.members(world(a=lab("1"), b=lab("2"), c=lab("3"), m=Node(admin=True)), "lab")
    names = ["3", "a.example.com", "a", "3"]
    assert uids(members.chosen(everyone, names)) == ["3", "1", "m.example.com"]
    assert members.chosen(everyone, []) == everyone


def test_the_first_part_of_several_names_means_none_of_them() -> None:
    made = world(a=lab("1"), b=lab("2"))
    made.put_node("a.example.org", lab("3"), 0)
    everyone = members.members(made, "lab")
    with pytest.raises(Conflict, match=r"a may be a\.example\.com, a\.example\.org; name nodes by uid or FQDN"):
        members.chosen(everyone, ["a"])
    assert uids(members.chosen(everyone, ["a.example.org", "1", "b"])) == ["3", "1", "2"]


def test_a_node_that_is_not_there_is_told_with_the_nearest_one() -> None:
    everyone = members.members(world(web=lab()), "lab")
    with pytest.raises(NotFound, match="node wev is not in this deployment; did you mean `web`"):
        members.chosen(everyone, ["wev"])


def test_nodes_whose_tasks_would_wait_are_named() -> None:
    made = world(a=lab("1", alive=True), b=lab("2"), c=lab("3", alive=True, available=False))
    assert list(members.warnings(made, members.members(made, "lab"))) == [
        "b.example.com is not alive; its tasks wait until it is",
        "c.example.com is not available; its tasks wait until it is",
    ]
