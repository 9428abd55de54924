"""The noderoles of a picture: found again as the world changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.noderole import State
from nodepool_ocb.errors import NotFound
from nodepool_ocb.operations.nodes.changing import NodeSet
from nodepool_ocb.operations.scope import Scope
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.operations.performing import calm

N1 = "n1.example.com"


def found(scope: Scope, session: Session) -> set[str]:
    return {vertex.role for vertex in load_world(session).vertices() if scope.has(vertex)}


def test_a_selector_is_found_again_and_names_the_nodes_that_came_or_left(
    world: Session, zk_settings: ZooKeeperSettings, becomes: Callable[..., None]
) -> None:
    scope = Scope(calm(zk_settings), None, "state:ERROR")
    assert (scope.look(load_world(world)), found(scope, world)) == (set(), set())
    becomes(f"base@{N1}", State.ERROR)
    assert (scope.look(load_world(world)), found(scope, world)) == ({N1}, {"base"})
    assert scope.look(load_world(world)) == set()
    assert abs(scope.now - world.now()) < 60


def test_a_name_in_a_selector_may_go_and_come_again(world: Session, zk_settings: ZooKeeperSettings) -> None:
    scope = Scope(calm(zk_settings), "lab", "tag:web")
    assert found(scope, world) == {"base", "middle", "top"}
    calm(zk_settings).perform(NodeSet(nodes=(N1,), assignments=("tags=db",)))
    assert (scope.look(load_world(world)), found(scope, world)) == ({N1}, set())
    calm(zk_settings).perform(NodeSet(nodes=(N1,), assignments=("tags=web",)))
    assert (scope.look(load_world(world)), found(scope, world)) == ({N1}, {"base", "middle", "top"})


def test_outdated_noderoles_are_looked_for_with_the_attributes_of_now(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    scope = Scope(calm(zk_settings), None, "outdated")
    assert found(scope, world) == set()


@pytest.mark.usefixtures("world")
def test_a_name_that_does_not_exist_at_the_begin_is_refused(zk_settings: ZooKeeperSettings) -> None:
    with pytest.raises(NotFound, match="deployment lad"):
        Scope(calm(zk_settings), "lad", None)
    with pytest.raises(NotFound, match="tag wep does not exist"):
        Scope(calm(zk_settings), None, "tag:wep")


def test_a_deployment_shows_no_noderoles_of_others(world: Session, zk_settings: ZooKeeperSettings) -> None:
    assert found(Scope(calm(zk_settings), "lab", None), world) == {"base", "middle", "top"}
    assert found(Scope(calm(zk_settings), "system", None), world) == set()
    assert found(Scope(calm(zk_settings), None, None), world) == {"base", "middle", "top"}
