"""Driver openstack for machines, against a cloud with servers, networks and floating addresses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import SshSettings
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, ProviderPool
from nodepool_ocb.providers import launching
from nodepool_ocb.providers.cloud.servers import OpenStackServers
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineOrder, MachineRefused
from nodepool_ocb.testing.nova import Nova
from tests.providers.machines.orders import made, new_order, new_stamp

IMAGE = "11111111-2222-4333-8444-555555555555"
CREATE, DELETE, DETAIL = "/servers$", "/servers/[^/]+$", "/servers/detail$"


@pytest.fixture
def nova(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nova]:
    """A cloud named ``test`` in clouds.yaml, with one image."""
    with Nova() as cloud:
        cloud.write_clouds(tmp_path / "clouds.yaml")
        cloud.images[IMAGE] = {"id": IMAGE, "name": "debian", "status": "active", "owner": "0123"}
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
        monkeypatch.setattr("nodepool_ocb.providers.cloud.servers.LOOK_SECONDS", 0.05)
        yield cloud


def provider(pool: dict[str, Any] | None = None, **label: Any) -> LaunchProvider:
    options = {"flavor-name": "small", **label}
    of_label = PoolLabel(name="small", diskimage="debian", options=options)
    of_pool = ProviderPool(name="main", provider="p", labels={"small": of_label}, options=pool or {})
    return LaunchProvider(name="p", driver="openstack", cloud="test", region="RegionOne", pools={"main": of_pool})


def driver(configured: LaunchProvider | None = None) -> OpenStackServers:
    return OpenStackServers(configured or provider(), SshSettings(key_files=()))


def order_of(configured: LaunchProvider, **fields: Any) -> MachineOrder:
    pool = configured.pools["main"]
    return new_order(pool.labels["small"], pool=pool, **{"image": IMAGE, **fields})


def refused(outcome: object) -> MachineRefused:
    assert isinstance(outcome, MachineRefused), outcome
    return outcome


def test_a_server_bears_the_stamp_and_gets_an_address_of_the_external_network(nova: Nova) -> None:
    configured = provider()
    servers, order = driver(configured), order_of(configured, properties={"colour": "red"})
    created = made(servers.create(order))
    assert (created.state, created.stamp) == ("building", order.stamp)
    seen = made(servers.look(created.external_id))
    assert (seen.state, seen.public_ipv4, seen.address) == ("running", "198.51.100.1", "198.51.100.1")
    assert (seen.private_ipv4, seen.cloud, seen.region) == ("127.77.0.1", "test", "RegionOne")
    assert nova.servers[created.external_id]["metadata"] == {"colour": "red", **order.stamp.labels}
    assert seen.resources == {"instances": 1.0, "cores": 1.0, "ram": 512.0}


def test_a_pool_without_floating_addresses_uses_the_fixed_one(nova: Nova) -> None:
    configured = provider({"auto-floating-ip": False})
    servers = driver(configured)
    created = made(servers.create(order_of(configured)))
    seen = made(servers.look(created.external_id))
    assert (seen.state, seen.address, nova.floating) == ("running", "127.77.0.1", {})


def test_a_cloud_without_an_external_network_needs_no_floating_address(nova: Nova) -> None:
    nova.networks = {"private": False}
    configured = provider()
    servers = driver(configured)
    created = made(servers.create(order_of(configured)))
    assert made(servers.look(created.external_id)).address == "127.77.0.1"


def test_a_second_look_makes_no_second_address(nova: Nova) -> None:
    configured = provider()
    servers = driver(configured)
    created = made(servers.create(order_of(configured)))
    nova.lose_answer("POST", "/floatingips$")
    servers.look(created.external_id)
    made(servers.look(created.external_id))
    assert len(nova.floating) == 1


def test_a_successor_finds_the_server_of_a_lost_answer(nova: Nova) -> None:
    configured = provider()
    order = order_of(configured)
    nova.lose_answer("POST", CREATE)
    assert refused(driver(configured).create(order)).party is LaunchParty.PROVIDER
    for _ in range(5):
        made(driver(configured).create(order_of(configured)))  # several pages
    found = made(driver(configured).find(order.stamp))
    assert nova.servers[found.external_id]["metadata"]["nodepool_ocb_node_key"] == order.stamp.key
    assert driver(configured).find(new_stamp()) is None


def test_a_deletion_removes_the_server_and_its_address_and_waits_until_it_is_gone(nova: Nova) -> None:
    configured = provider()
    servers, order = driver(configured), order_of(configured)
    created = made(servers.create(order))
    made(servers.look(created.external_id))
    nova.delete_seconds = 0.3
    assert servers.delete(created.external_id, order.stamp) is None
    assert (nova.servers, nova.floating) == ({}, {})
    assert servers.delete(created.external_id, order.stamp) is None


def test_an_address_whose_server_is_gone_already_is_deleted(nova: Nova) -> None:
    configured = provider()
    servers, order = driver(configured), order_of(configured)
    created = made(servers.create(order))
    made(servers.look(created.external_id))
    del nova.servers[created.external_id]
    assert servers.delete(created.external_id, order.stamp) is None
    assert nova.floating == {}


def test_a_server_of_another_node_is_not_deleted(nova: Nova) -> None:
    configured = provider()
    servers, order = driver(configured), order_of(configured)
    created = made(servers.create(order))
    again = replace(order.stamp, key="another")  # the id of the record returned after a restore
    assert "the stamp on it is that of node" in refused(servers.delete(created.external_id, again)).reason
    assert created.external_id in nova.servers


def test_a_server_that_does_not_disappear_is_reported(nova: Nova, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodepool_ocb.providers.cloud.servers.DELETE_SECONDS", 0.2)
    configured = provider()
    servers, order = driver(configured), order_of(configured)
    created = made(servers.create(order))
    nova.delete_seconds = 60.0
    assert "is still there" in refused(servers.delete(created.external_id, order.stamp)).reason


def test_a_server_in_error_tells_the_words_of_the_cloud(nova: Nova) -> None:
    nova.broken = "No valid host was found."
    configured = provider()
    servers = driver(configured)
    created = made(servers.create(order_of(configured)))
    seen = made(servers.look(created.external_id))
    assert (seen.state, seen.fault) == ("failed", "No valid host was found.")


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ({"flavor-name": "huge"}, "there is no flavor named huge"),
        ({"min-ram": 999_999, "flavor-name": "l"}, "there is no flavor with 999999 MiB and l in its name"),
        ({"networks": ["dmz"]}, "there is no network dmz"),
    ],
)
def test_a_label_that_no_launch_can_serve_is_refused_as_a_fault_of_the_request(
    nova: Nova, label: dict[str, Any], sentence: str
) -> None:
    configured = provider(**label)
    answer = refused(driver(configured).create(order_of(configured)))
    assert (answer.party, sentence in answer.reason) == (LaunchParty.REQUEST, True)
    assert nova.servers == {}


def test_an_image_that_is_gone_is_a_fault_of_the_request(nova: Nova) -> None:
    configured = provider()
    assert refused(driver(configured).create(order_of(configured, image="gone"))).party is LaunchParty.REQUEST
    assert nova.servers == {}


def test_a_full_cloud_is_a_quota(nova: Nova) -> None:
    nova.quota["instances"] = 1
    configured = provider()
    made(driver(configured).create(order_of(configured)))
    assert refused(driver(configured).create(order_of(configured))).party is LaunchParty.QUOTA


@pytest.mark.parametrize("status", [500, 503])
def test_a_cloud_that_fails_is_a_fault_of_the_provider(nova: Nova, status: int) -> None:
    configured = provider()
    servers = driver(configured)
    nova.answer("GET", DETAIL, status, times=20)
    assert refused(servers.find(new_stamp())).party is LaunchParty.PROVIDER
    with pytest.raises(Unavailable):
        list(servers.list())


def test_the_keys_of_a_label_reach_the_server(nova: Nova) -> None:
    keys: dict[str, Any] = {
        "key-name": "ours",
        "userdata": "#cloud-config",
        "boot-from-volume": True,
        "volume-size": 20,
        "instance-properties": {"groups": "ci"},
        "networks": ["private"],
        "config-drive": True,
    }
    configured = provider({"availability-zones": ["zone-7"], "security-groups": ["web"]}, **keys)
    created = made(driver(configured).create(order_of(configured)))
    asked = nova.servers[created.external_id]["_asked"]
    assert (asked["key_name"], asked["user_data"], asked["availability_zone"]) == (
        "ours",
        "I2Nsb3VkLWNvbmZpZw==",
        "zone-7",
    )
    assert (asked["security_groups"], asked["networks"], asked["config_drive"]) == (
        [{"name": "web"}],
        [{"uuid": "net-private"}],
        True,
    )
    volume = asked["block_device_mapping_v2"][0]
    assert (volume["volume_size"], volume["delete_on_termination"], volume["uuid"]) == (20, True, IMAGE)
    assert asked["metadata"]["groups"] == "ci"


def test_the_smallest_flavor_with_the_memory_is_taken(nova: Nova) -> None:
    configured = provider()
    label = PoolLabel(name="small", options={"min-ram": 600})
    order = order_of(configured)
    created = made(driver(configured).create(replace(order, label=label)))
    assert nova.servers[created.external_id]["flavor"]["original_name"] == "large"


def test_a_cloud_image_is_found_by_its_name(nova: Nova) -> None:
    configured = provider(**{"image-name": "debian"})
    created = made(driver(configured).create(order_of(configured, image=None)))
    assert nova.servers[created.external_id]["image"]["id"] == IMAGE
    absent = provider(**{"image-name": "absent"})
    assert "no active image absent" in refused(driver(absent).create(order_of(absent, image=None))).reason


def test_the_quota_tells_limits_and_the_usage_of_others(nova: Nova) -> None:
    configured = provider()
    servers, order = driver(configured), order_of(configured)
    made(servers.create(order))
    foreign = replace(order, stamp=new_stamp(cluster="theirs"))
    made(driver(configured).create(foreign))
    quota = servers.quota()
    assert not isinstance(quota, MachineRefused)
    assert quota.limits == {"instances": 100.0, "cores": 400.0, "ram": 400_000.0}
    assert len(nova.servers) == 2
    assert quota.foreign == {"instances": 1.0, "cores": 1.0, "ram": 512.0}


def test_no_limit_of_the_cloud_is_no_limit(nova: Nova) -> None:
    nova.reported = {"instances": -1, "cores": 10, "ram": -1}
    quota = driver().quota()
    assert not isinstance(quota, MachineRefused)
    assert quota.limits == {"cores": 10.0}


def test_all_stamped_servers_are_listed_and_no_others(nova: Nova) -> None:
    configured = provider()
    servers = driver(configured)
    ours = [made(servers.create(order_of(configured))).external_id for _ in range(4)]
    nova.servers[ours[-1]]["metadata"].clear()
    assert {each.external_id for each in servers.list()} == {*ours[:-1]}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"dynamic-instance-properties": {"a": "{request}"}}, "is not obeyed; use `instance-properties`"),
        ({"flavour": "small"}, "flavour"),
    ],
)
def test_a_key_that_is_not_obeyed_is_refused(changed: dict[str, Any], sentence: str) -> None:
    found = launching.faults(provider(**changed))
    assert any(sentence in fault and "pools[main].labels[small]" in fault for fault in found), found


def test_a_provider_without_a_cloud_is_refused() -> None:
    assert "key `cloud` is missing" in launching.faults(replace(provider(), cloud=None))[0]


def test_the_launcher_opens_the_driver_by_its_name(nova: Nova) -> None:
    configured = provider()
    calls = launching.open(configured, SshSettings(key_files=()))
    assert isinstance(calls.create(order_of(configured)), Machine)
    calls.close()
    assert len(nova.servers) == 1
