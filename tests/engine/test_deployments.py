"""Deployments: made below another, turned, and deleted when nothing belongs to them."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine import deployments
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Deployment, DeploymentState, Node, Set


@pytest.fixture
def world() -> World:
    made = World()
    made.put_deployment("system", Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 3))
    made.put_deployment("lab", Stored(Deployment(), 4))
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
    with pytest.raises(Conflict, match=r"still holds node a\.example\.com; move"):
        deployments.deletable(world, "lab")
    for name in ("b", "c"):
        world.put_node(f"{name}.example.com", Node(deployment="lab"), 0)
    with pytest.raises(Conflict, match=r"still holds node a\.example\.com and 2 more; move"):
        deployments.deletable(world, "lab")
    with pytest.raises(Conflict, match="cannot be deleted"):
        deployments.deletable(world, "system")


def test_a_deployment_that_is_dropped_is_gone_and_no_other(world: World) -> None:
    world.drop_deployment("lab")
    world.drop_deployment("lab")
    assert list(world.deployments) == ["system"]
