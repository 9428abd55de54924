"""Nodepool's registration of a launcher: ephemeral, of this session, with the values of now."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kazoo.client import KazooClient

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.pool.configuration import LaunchProvider, PoolConfiguration, PoolLabel, ProviderPool
from nodepool_ocb.store.client.session import Session
from nodepool_ocb_launcher.components import PoolComponents


def configured(*pools: str, labels: tuple[str, ...] = ("small",)) -> PoolConfiguration:
    made = {
        name: ProviderPool(name=name, provider="east", labels={each: PoolLabel(name=each) for each in labels})
        for name in pools
    }
    return PoolConfiguration(providers={"east": LaunchProvider(name="east", driver="fake", pools=made)})


@pytest.fixture
def components(zk_session: Session) -> PoolComponents:
    return PoolComponents(zk_session, "h")


def seen(kazoo: KazooClient, kind: str = "pool") -> dict[str, dict[str, Any]]:
    """Name of a component → its keys."""
    folder = paths.components(kind)
    return {name: json.loads(kazoo.get(f"{folder}/{name}")[0]) for name in sorted(kazoo.get_children(folder))}


def test_a_launcher_and_each_of_its_pools_are_registered_in_nodepools_form(
    components: PoolComponents, kazoo: KazooClient
) -> None:
    components.write(configured("main", "spare", labels=("small", "large")), paused=False, ending=False)
    (launcher,) = seen(kazoo, "launcher").items()
    assert launcher[0] == "h0000000000"
    assert launcher[1].items() >= {"hostname": "h", "kind": "launcher", "state": "running", "model_api": 2}.items()
    pools = seen(kazoo)
    assert [each["name"] for each in pools.values()] == ["main", "spare"]
    for pool in pools.values():
        assert pool.items() >= {"kind": "pool", "provider_name": "east", "state": "running", "paused": False}.items()
        assert pool["supported_labels"] == ["large", "small"]
        assert pool["id"] in components.ids.values()
        assert (pool["priority"], isinstance(pool["version"], str)) == (100, True)
    assert len({each["id"] for each in pools.values()}) == 2


def test_nothing_is_written_while_nothing_changes(components: PoolComponents, zk_session: Session) -> None:
    components.write(configured("main"), paused=False, ending=False)
    before = zk_session.last_zxid
    components.write(configured("main"), paused=False, ending=False)
    components.check()
    assert zk_session.last_zxid == before


def test_changes_of_state_labels_and_pools_are_written_in_place(components: PoolComponents, kazoo: KazooClient) -> None:
    components.write(configured("main", "spare"), paused=False, ending=False)
    before = seen(kazoo)
    components.write(configured("main", labels=("large",)), paused=True, ending=True)
    (name, pool), *rest = seen(kazoo).items()
    assert not rest
    assert (pool["supported_labels"], pool["paused"], pool["state"]) == (["large"], True, "stopped")
    assert (name, pool["id"]) == next((each, keys["id"]) for each, keys in before.items() if keys["name"] == "main")
    (launcher,) = seen(kazoo, "launcher").values()
    assert (launcher["state"], launcher["paused"]) == ("stopped", True)


@pytest.mark.parametrize("kind", ["pool", "launcher"])
def test_a_component_that_another_client_deleted_or_changed_is_made_again(
    components: PoolComponents, kazoo: KazooClient, kind: str
) -> None:
    def made_again(name: str) -> None:
        components.check()
        components.write(configured("main"), paused=False, ending=False)
        (found,) = seen(kazoo, kind)
        assert found > name
        assert seen(kazoo, kind)[found]["state"] == "running"

    components.write(configured("main"), paused=False, ending=False)
    (name,) = seen(kazoo, kind)
    kazoo.delete(f"{paths.components(kind)}/{name}")
    made_again(name)
    (name,) = seen(kazoo, kind)
    kazoo.set(f"{paths.components(kind)}/{name}", b"{oops")
    made_again(name)


def test_the_components_go_with_the_session(
    zk_session: Session, zk_settings: ZooKeeperSettings, kazoo: KazooClient
) -> None:
    assert zk_session.connected
    with Session(zk_settings) as session:
        PoolComponents(session, "h").write(configured("main"), paused=False, ending=False)
        assert seen(kazoo)
    assert not seen(kazoo)
    assert not seen(kazoo, "launcher")
