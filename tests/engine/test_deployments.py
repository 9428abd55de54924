"""Deployments: made below another, turned, and deleted when nothing belongs to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodepool_ocb.engine import binding, deployments, liveness, nodes
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import Checks
from nodepool_ocb.model.records import (
    Check,
    Create,
    Delete,
    Deployment,
    DeploymentRole,
    DeploymentState,
    Node,
    NodeRole,
    Role,
    Set,
    State,
    Structure,
)

HOOK = ("on_deployment_delete",)


@pytest.fixture
def world() -> World:
    made = World()
    made.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 3), "system")
    made.put(Stored(Deployment(), 4), "lab")
    return made


def test_a_new_deployment_is_proposed_below_its_parent(world: World) -> None:
    record, roles = [each for each in deployments.create(world, "web", "lab", 9.0, "ann") if isinstance(each, Create)]
    assert record.path == paths.deployment("web")
    assert record.data == Deployment(parent="lab", since=9.0, by="ann")
    assert roles.path == paths.deployment_roles("web")


def test_a_deployment_of_a_wrong_name_or_twice_or_below_nothing_is_refused(world: World) -> None:
    with pytest.raises(Invalid, match="is no name for a deployment"):
        deployments.create(world, "Web!", "lab", 9.0)
    with pytest.raises(Conflict, match="exists already"):
        deployments.create(world, "lab", "system", 9.0)
    with pytest.raises(NotFound):
        deployments.create(world, "web", "gone", 9.0)


def test_turning_writes_the_version_that_was_judged_and_nothing_where_it_is_so_already(world: World) -> None:
    (change,) = deployments.turn(world, "lab", DeploymentState.COMMITTED, 9.0, "ann")
    assert isinstance(change, Set)
    assert (change.path, change.version) == (paths.deployment("lab"), 4)
    assert deployments.turn(world, "lab", DeploymentState.PROPOSED, 9.0) == []
    with pytest.raises(Conflict, match="always COMMITTED"):
        deployments.turn(world, "system", DeploymentState.PROPOSED, 9.0)


def test_what_still_belongs_to_a_deployment_is_named_and_counted(world: World) -> None:
    deployments.deletable(world, "lab")
    world.put_node("a.example.com", Node(deployment="lab"), 0)
    with pytest.raises(
        Conflict, match=r"still holds node a\.example\.com; first: nodepool-ocb node move a\.example\.com"
    ):
        deployments.deletable(world, "lab")
    for name in ("b", "c"):
        world.put_node(f"{name}.example.com", Node(deployment="lab"), 0)
    with pytest.raises(Conflict, match=r"still holds node a\.example\.com and 2 more; first: nodepool-ocb node move"):
        deployments.deletable(world, "lab")
    with pytest.raises(Conflict, match="cannot be deleted: every cluster has it"):
        deployments.deletable(world, "system")


def test_a_deployment_that_is_dropped_is_gone_and_no_other(world: World) -> None:
    world.drop(Deployment, "lab")
    world.drop(Deployment, "lab")
    assert list(world.deployments) == ["system"]


def test_a_node_leaves_a_deployment_that_is_being_deleted(world: World) -> None:
    """An annealer or a command of an earlier version may have let it in, and then the deletion waits until it is gone."""
    world.put(Stored(Structure(), 1))
    world.put_node("in.lab.com", Node(deployment="lab"), 0)
    world.put(Stored(Deployment(deleting=True), 5), "lab")
    with pytest.raises(Conflict, match="still holds node"):
        deployments.deletable(world, "lab")
    assert liveness.changed(world, world.nodes["in.lab.com"], 9.0, deployment="system")


LEAVING: dict[str, Callable[[World], object]] = {
    "a deployment below it": lambda world: deployments.create(world, "web", "lab", 9.0),
    "its other state": lambda world: deployments.turn(world, "lab", DeploymentState.COMMITTED, 9.0),
    "a schedule": lambda world: deployments.checked_by(world, "lab", Checks(schedule="0 3 * * *", since=9.0)),
    "attributes of a role": lambda world: deploymentroles.configured(world, "lab", "base", {"a": 1}),
    "a new node": lambda world: nodes.create(
        world, "b.example.com", Node(deployment="lab"), admin_domain=None, now=9.0
    ),
    "a node that moves in": lambda world: liveness.changed(world, world.nodes["a.example.com"], 9.0, deployment="lab"),
    "a noderole": lambda world: binding.plan(world, "base", "a.example.com", now=9.0, deployment="lab"),
    "a noderole on its node": lambda world: binding.plan(world, "base", "in.lab.com", now=9.0, deployment="system"),
    "a child of a noderole on its node": lambda world: binding.plan(
        world, "above", "a.example.com", now=9.0, parents=["base@in.lab.com"]
    ),
}


@pytest.mark.parametrize("what", LEAVING)
def test_nothing_enters_a_deployment_that_is_being_deleted(world: World, what: str) -> None:
    world.put(Stored(Structure(), 1))
    world.put(Stored(Role(barclamp="b", jig="noop"), 0), "base")
    world.put(Stored(Role(barclamp="b", jig="noop", requires=("base",)), 0), "above")
    world.put_node("a.example.com", Node(), 0)
    world.put_node("in.lab.com", Node(deployment="lab"), 0)
    world.put_noderole("in.lab.com", "base", NodeRole(state=State.PROPOSED, since=1.0), 0)
    if what == "a noderole on its node":
        world.drop_noderole("in.lab.com", "base")
    LEAVING[what](world)  # until the deletion begins
    world.put(Stored(Deployment(deleting=True), 5), "lab")
    with pytest.raises(Conflict, match="is being deleted"):
        LEAVING[what](world)


def test_attributes_of_a_role_are_written_over_the_version_that_was_judged(world: World) -> None:
    world.put(Stored(Structure(), 8))
    world.put(Stored(Role(barclamp="b", jig="noop"), 0), "base")
    world.put(Stored(DeploymentRole(user={"a": 1}), 6), "lab", "base")
    assert deploymentroles.configured(world, "lab", "base", {"a": 1}) == []
    assert deploymentroles.configured(world, "lab", "base", {"a": 2}) == [
        Check(paths.STRUCTURE, 8),
        Check(paths.deployment("lab"), 4),
        Set(paths.deployment_role("lab", "base"), DeploymentRole(user={"a": 2}), 6),
    ]


def test_a_deletion_in_parts_begins_with_a_mark_over_the_version_that_was_judged(world: World) -> None:
    world.put(Stored(Structure(), 8))
    (transaction,) = deployments.marking(world, "lab")
    assert Set(paths.deployment("lab"), Deployment(deleting=True), 4) in transaction
    assert world.deployments["lab"] == Stored(Deployment(deleting=True), 5)
    assert list(deployments.marking(world, "lab")) == []


@pytest.mark.parametrize(("hooks", "force", "goes"), [((), False, True), (HOOK, False, False), (HOOK, True, True)])
def test_a_role_leaves_a_deployment_at_once_or_after_its_hook(
    world: World, hooks: tuple[str, ...], force: bool, goes: bool
) -> None:
    world.put(Stored(Structure(), 8))
    world.put(Stored(Role(barclamp="b", jig="noop", hooks=hooks), 0), "base")
    world.put(Stored(DeploymentRole(user={"a": 1}), 6), "lab", "base")
    path = paths.deployment_role("lab", "base")
    (change,) = (each for each in deploymentroles.leaving(world, "lab", "base", force) if each.path == path)
    if goes:
        assert change == Delete(path, 6)
    else:
        assert isinstance(change, Set)
        assert isinstance(change.data, DeploymentRole)
        assert (change.version, change.data.deleting, change.data.hooks) == (6, True, HOOK)
    with pytest.raises(NotFound, match="role other is not in deployment lab"):
        deploymentroles.leaving(world, "lab", "other")
