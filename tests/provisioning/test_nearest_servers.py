"""The order of the servers from which a machine takes its image."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.boot import Publisher
from nodepool_ocb.model.networks import Network, RelaySegment
from nodepool_ocb.model.records import Node, NodeRole, State
from nodepool_ocb.provisioning import boot, nearness

N: Final = "n1.example.com"
PATH: Final = "images/i/1/disk.raw"
BESIDE, RELAYED, OTHER = ("http://10.1.0.2:8480", "http://10.2.0.2:8480", "http://192.0.2.2:8480")


def world(*servers: str) -> World:
    """A network with two segments, and admin nodes with these servers."""
    made = World()
    segment = RelaySegment(subnet="10.2.0.0/24", router="10.2.0.1")
    made.put(Stored(Network(subnet="10.1.0.0/24", subnet6="fd00::/64", segments=(segment,)), 0), "admin")
    made.put_node(N, Node(), 0)
    for number, address in enumerate(servers):
        fqdn = f"admin{number}.example.com"
        made.put_node(fqdn, Node(alive=True, admin=True), 0)
        made.put_noderole(fqdn, boot.DHCP, NodeRole.of(state=State.ACTIVE, since=1.0), 0)
        made.put(Stored(Publisher(directory="d", address=address), 0), f"{boot.DHCP}@{fqdn}")
    return made


def at(*servers: str) -> list[str]:
    """``boot``: the server of the boot."""
    return [PATH if each == "boot" else f"{each}/{PATH}" for each in servers]


@pytest.mark.parametrize(
    ("caller", "order"),
    [
        ("10.1.0.120", (BESIDE, "boot", RELAYED, OTHER)),
        ("10.2.0.120", (RELAYED, "boot", BESIDE, OTHER)),
        ("192.0.2.9", None),  # in no network of the cluster: all servers are equally far
        ("a-proxy", None),
    ],
)
def test_the_nearest_server_is_the_first_one_and_the_servers_of_its_network_precede_the_others(
    caller: str, order: tuple[str, ...] | None
) -> None:
    found = nearness.sources(world(OTHER, RELAYED, BESIDE), N, caller, PATH)
    if order is not None:
        assert found == at(*order)
    else:
        assert (found[0], sorted(found[1:])) == (PATH, sorted(at(OTHER, RELAYED, BESIDE)))


def test_the_addresses_of_the_node_count_where_its_own_words_come_through_a_proxy() -> None:
    made = world(OTHER, RELAYED, BESIDE)
    made.put_node(N, Node(networks={"admin": ("10.2.0.7",)}), 1)
    assert nearness.sources(made, N, "127.0.0.1", PATH)[0] == f"{RELAYED}/{PATH}"


def test_a_server_is_near_by_ipv6_too() -> None:
    near = "http://[fd00::2]:8480"
    assert nearness.sources(world(BESIDE, near), N, "fd00::77", PATH) == at(near, "boot", BESIDE)


def test_machines_of_one_subnet_are_spread_over_its_servers_and_each_keeps_its_order() -> None:
    made = world(BESIDE, "http://10.1.0.3:8480")
    first = {
        fqdn: nearness.sources(made, fqdn, "10.1.0.120", PATH)[0] for fqdn in (f"n{n}.example.com" for n in range(64))
    }
    loads = sorted([*first.values()].count(each) for each in set(first.values()))
    assert len(loads) == 2, "a rollout loads both"
    assert loads[0] >= 16
    assert first["n7.example.com"] == nearness.sources(made, "n7.example.com", "10.1.0.120", PATH)[0]


def test_a_server_that_is_dead_is_in_no_order() -> None:
    made = world(BESIDE, OTHER)
    node = made.nodes["admin0.example.com"].record
    assert node is not None
    made.put_node("admin0.example.com", replace(node, alive=False), 1)
    assert nearness.sources(made, N, "10.1.0.120", PATH) == at("boot", OTHER)
