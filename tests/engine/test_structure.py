"""The structure: what raises it, and which numbers outlive what is deleted."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import binding, claim, nodes, structure
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Change,
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

N1 = "n1.example.com"


@pytest.fixture
def world() -> World:
    made = World()
    made.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0), "system")
    made.put(Stored(Role(barclamp="b", jig="noop"), 0), "work")
    made.put_node(N1, Node(alive=True, epoch_base=40), 3)
    made.put_fence(N1, 7)
    made.put_noderole(N1, "work", NodeRole(state=State.TODO, since=0.0, generation=12), 5)
    made.put(Stored(Structure(generation=9, epoch=90), 17))
    return made


def raised(world: World, *changes: Change) -> Structure | None:
    """What the transaction makes of the structure."""
    for change in structure.raised(world, changes):
        if change.path == paths.STRUCTURE:
            assert isinstance(change, Set)
            assert change.version == 17
            assert isinstance(change.data, Structure)
            return change.data
    return None


@pytest.mark.parametrize(
    "change",
    [
        Create(paths.role("new"), Role(barclamp="b", jig="noop")),
        Set(paths.role("work"), Role(barclamp="b", jig="noop", conflicts=("other",)), 0),
        Create(paths.deployment("lab"), Deployment()),
        Delete(paths.deployment("lab"), 0),
        Create(paths.deployment_role("lab", "work"), DeploymentRole()),
        Set(paths.deployment_role("lab", "work"), DeploymentRole(deleting=True), 0),
        Create(paths.node("n2.example.com"), Node()),
        Set(paths.node(N1), Node(deployment="lab"), 3),
        Set(paths.node(N1), Node(deleting=True), 3),
        Create(paths.noderole("other", N1), NodeRole(state=State.PROPOSED, since=0.0)),
        Delete(paths.noderole("work", N1), 5),
    ],
    ids=lambda change: f"{type(change).__name__} {change.path}",
)
def test_what_comes_goes_or_is_linked_anew_raises_the_structure(world: World, change: Change) -> None:
    assert raised(world, change) is not None


@pytest.mark.parametrize(
    "change",
    [
        Check(paths.node(N1), 3),
        Set(paths.node(N1), Node(alive=False, epoch_base=40), 3),
        Set(paths.noderole("work", N1), NodeRole(state=State.ACTIVE, since=1.0), 5),
        Create(paths.user("work", N1), {"a": 1}),
        Create(paths.claim(N1), None, ephemeral=True),
    ],
    ids=lambda change: f"{type(change).__name__} {change.path}",
)
def test_what_happens_to_what_is_there_leaves_the_structure_alone(world: World, change: Change) -> None:
    assert raised(world, change) is None


def test_a_deletion_leaves_the_highest_numbers_that_ever_were(world: World) -> None:
    assert raised(world, Delete(paths.noderole("work", N1), 5)) == Structure(generation=12, epoch=90)
    world.put_node(N1, Node(epoch_base=140), 4)
    assert raised(world, Delete(paths.fence(N1), 7), Delete(paths.node(N1), 4)) == Structure(generation=9, epoch=148)


def test_a_node_whose_fence_a_hand_took_leaves_the_epochs_of_its_noderoles(world: World) -> None:
    world.put_noderole(N1, "work", NodeRole(state=State.ACTIVE, since=0.0, generation=12, epoch=147), 5)
    world.put_fence(N1, -1)
    gone = (Delete(paths.noderole("work", N1), 5), Delete(paths.node(N1), 3))
    assert raised(world, *gone) == Structure(generation=12, epoch=148)


def test_a_node_that_is_deleted_before_anybody_claimed_it_and_made_again_begins_at_another_epoch(world: World) -> None:
    bases: list[int] = []
    for _ in range(3):
        made = nodes.create(world, "n2.example.com", Node(), admin_domain=None, now=1.0).changes[0]
        assert isinstance(made, Create)
        assert isinstance(made.data, Node)
        bases.append(made.data.epoch_base)
        world.put_node("n2.example.com", made.data, 0)
        world.put_fence("n2.example.com", 0)
        left = raised(world, Delete(paths.fence("n2.example.com"), 0), Delete(paths.node("n2.example.com"), 0))
        assert left is not None
        world.drop_node("n2.example.com")
        world.put(Stored(left, 17))
    assert bases == sorted(set(bases))


def test_what_nobody_judged_is_not_deleted(world: World) -> None:
    with pytest.raises(Stale, match="did not exist"):
        structure.raised(world, [Delete(paths.noderole("appeared", N1), 0)])


def test_parts_keep_groups_whole_and_each_raises_what_the_one_before_left(world: World) -> None:
    groups = [
        [Create(paths.role(f"r{n}-{each}"), Role(barclamp="b", jig="noop")) for each in range(200)] for n in range(5)
    ]
    parts = list(structure.in_parts(world, groups))
    assert [len(part) for part in parts] == [201, 201, 201, 201, 201]
    assert [part[-1].version for part in parts if isinstance(part[-1], Set)] == [17, 18, 19, 20, 21]


def test_a_new_node_s_epochs_and_a_new_noderole_s_generation_are_above_all_that_was_deleted(world: World) -> None:
    made = nodes.create(world, "n2.example.com", Node(), admin_domain=None, now=1.0).changes[0]
    assert isinstance(made, Create)
    assert isinstance(made.data, Node)
    view = world.put_node("n2.example.com", made.data, 0)
    world.put_fence("n2.example.com", 0)
    assert view.epoch == 90
    ((_, bound),) = binding.plan(world, "work", "n2.example.com", now=1.0).noderoles
    assert bound.generation == 9
    vertex = world.put_noderole("n2.example.com", "work", replace(bound, state=State.TODO), 0)
    grant = claim.take(world, vertex, "a", "r1", 1.0)
    assert (grant.epoch, grant.fence) == (91, 1)
    following = claim.take_next(world, grant, vertex, vertex.record, "r2", 1.0)
    assert (following.epoch, following.fence) == (92, 2)
    assert Check(paths.fence("n2.example.com"), 1) in claim.finishing(grant, {}, None)


def test_nothing_comes_or_goes_without_the_structure(world: World) -> None:
    world.drop(Structure)
    with pytest.raises(Conflict, match="restore it"):
        structure.raised(world, [Delete(paths.noderole("work", N1), 5)])
