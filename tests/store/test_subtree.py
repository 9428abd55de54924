"""The records of a subtree are deleted at the version that the world shows, or not at all."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Claim,
    Delete,
    Deployment,
    DeploymentRole,
    Fence,
    Node,
    NodeRole,
    Record,
    RolloutPointer,
    State,
    TaskRunPointer,
)
from nodepool_ocb.store import subtree
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.world.load import WorldTree

FQDN: Final = "n1.example.com"
CLAIM: Final = Claim(annealer="a1", noderole=f"ntp@{FQDN}", run="r1", epoch=1, since=1.0)
RECORDS: Final[dict[str, Record]] = {
    paths.deployment("lab"): Deployment(parent="system"),
    paths.deployment_role("lab", "ntp"): DeploymentRole(),
    paths.node(FQDN): Node(),
    paths.fence(FQDN): Fence(),
    paths.claim(FQDN): CLAIM,
    paths.noderole("ntp", FQDN): NodeRole(state=State.TODO, since=1.0),
    paths.rollouts("lab"): RolloutPointer(),
    paths.task_runs("lab"): TaskRunPointer(),
}
ZNODES: Final = {
    path: Znode(path, codec.encode(record), version, 100 + version)
    for version, (path, record) in enumerate(RECORDS.items(), 3)
}
SHOWN: Final = sorted(ZNODES)


@pytest.fixture
def world() -> World:
    shown = WorldTree(World())
    for path, znode in ZNODES.items():
        shown.put(path, znode)
    return shown.world


@pytest.mark.parametrize("path", SHOWN)
def test_a_record_goes_at_the_version_that_the_world_shows(world: World, path: str) -> None:
    assert subtree.judged(world, [ZNODES[path]]) == [Delete(path, ZNODES[path].version)]


@pytest.mark.parametrize("path", SHOWN)
def test_a_record_that_changed_since_the_world_was_read_is_named(world: World, path: str) -> None:
    newer = replace(ZNODES[path], version=ZNODES[path].version + 1)
    with pytest.raises(Stale) as refused:
        subtree.judged(world, [newer])
    assert refused.value.path == path


@pytest.mark.parametrize("path", SHOWN)
def test_a_record_that_the_world_does_not_show_is_named(path: str) -> None:
    with pytest.raises(Stale) as refused:
        subtree.judged(World(), [ZNODES[path]])
    assert refused.value.path == path


def test_a_gate_goes_at_the_version_that_was_read(world: World) -> None:
    gate = paths.gate("lab", "ntp")
    assert subtree.judged(world, [Znode(gate, b"", 7, 200)]) == [Delete(gate, 7)]
