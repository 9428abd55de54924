"""Where machines may be said to be, and which nodes are one machine."""

from __future__ import annotations

import cProfile

import pytest

from nodepool_ocb.engine import addressing
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model.records import Node

N1, N2 = "n1.example.com", "n2.example.com"


def world(*addresses: str, **fields: object) -> World:
    made = World()
    made.put_node(N1, Node(addresses=addresses, **fields), 0)  # type: ignore[arg-type]
    made.put_fence(N1, 0)
    return made


@pytest.mark.parametrize(
    "address",
    [
        "n9.example.com",
        "N9",
        "10.0.0.9",
        "10.0.0.9:2222",
        "[fe80::9%eth0]:22",
        "fe80::9",
        "[::1]",
        "n9.example.com.",
        "a_b",
    ],
)
def test_hosts_and_addresses_may_be_said(address: str) -> None:
    addressing.check(world("10.0.0.1"), N2, [address])


@pytest.mark.parametrize(
    "address",
    [
        "",
        " ",
        "n 9",
        "root@n9",
        "ssh://n9",
        "n9:",
        "n9:0",
        "n9:65536",
        "n9:٢٢",
        "n9:22:22x",
        "10.0.0",
        "10.0.0.256",
        "010.0.0.1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",
        "::",
        "[::1",
        "[::1]22",
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
        "-n9",
        "n9\n",
        "n9\x00",
        "nö.example.com",
        "x" * 300,
        "a..b",
        "[n9]x",
    ],
)
def test_what_is_no_address_or_could_be_read_in_two_ways_is_refused(address: str) -> None:
    with pytest.raises(Invalid):
        addressing.check(world("10.0.0.1"), N2, [address])


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("10.0.0.1", "10.0.0.1:22"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("N7.Example.com.", "n7.example.com"),
        ("[2001:db8::0:7]:22", "2001:DB8::7"),
        ("10.0.0.1", N1),  # the other's own name
    ],
)
def test_an_address_of_another_node_is_refused_by_its_name_however_it_is_written(theirs: str, ours: str) -> None:
    with pytest.raises(Conflict, match=f"node {N1} is at"):
        addressing.check(world(theirs), N2, [ours])


def test_another_port_is_another_machine_and_the_same_node_may_keep_its_address() -> None:
    addressing.check(world("10.0.0.1:2201"), N2, ["10.0.0.1:2202"])
    addressing.check(world("10.0.0.1"), N1, ["10.0.0.1", N1])
    with pytest.raises(Invalid, match="twice"):
        addressing.check(world(), N2, ["10.0.0.1", "10.0.0.1:22"])


def test_nodes_of_one_machine_are_found_by_address_and_by_host_key() -> None:
    made = world("10.0.0.1", host_keys=("ssh-ed25519 AAAA",))
    made.put_node(N2, Node(addresses=("10.0.0.2",), host_keys=("ssh-ed25519 AAAA",)), 0)
    made.put_node("n3.example.com", Node(addresses=("10.0.0.1",)), 0)
    made.put_node("n4.example.com", Node(addresses=("10.0.0.4",)), 0)
    assert addressing.doubles(made, N1) == [N2, "n3.example.com"]
    assert addressing.doubles(made, "n4.example.com") == []


def test_what_was_asked_once_goes_along_with_the_world() -> None:
    """A node that moves, is made virtual or goes frees its address; one that comes has its own."""
    made = world("10.0.0.1")
    addressing.check(made, N2, ["10.0.0.2"])
    made.put_node(N2, Node(addresses=("10.0.0.2",)), 0)
    with pytest.raises(Conflict, match=N2):
        addressing.check(made, "n3.example.com", ["10.0.0.2"])
    made.put_node(N2, Node(addresses=("10.0.0.3",)), 1)
    addressing.check(made, "n3.example.com", ["10.0.0.2"])
    with pytest.raises(Conflict, match=N2):
        addressing.check(made, "n3.example.com", ["10.0.0.3"])
    made.put_node(N2, Node(virtual=True, addresses=("10.0.0.3",)), 2)
    addressing.check(made, "n3.example.com", ["10.0.0.3"])
    made.drop_node(N1)
    addressing.check(made, "n3.example.com", ["10.0.0.1", N1])


def test_one_of_two_nodes_at_an_address_leaves_it_to_the_other() -> None:
    made = world("10.0.0.1")
    made.put_node(N2, Node(addresses=("10.0.0.1",)), 0)
    assert addressing.doubles(made, N1) == [N2]
    made.drop_node(N2)
    with pytest.raises(Conflict, match=N1):
        addressing.check(made, "n3.example.com", ["10.0.0.1"])


def test_a_new_node_costs_the_same_however_many_there_are() -> None:
    assert calls_of_making(400) < 2.5 * calls_of_making(200)


def calls_of_making(number: int) -> int:
    """How many functions are called to give so many new nodes addresses, beside as many that have theirs."""
    made = World()
    for old in range(number):
        made.put_node(f"n{old}.example.com", Node(addresses=(f"10.0.{old // 250}.{old % 250 + 1}",)), 0)
    addressing.canonical.cache_clear()
    with cProfile.Profile() as profile:
        for new in range(number):
            name, address = f"new{new}.example.com", f"10.1.{new // 250}.{new % 250 + 1}"
            addressing.check(made, name, [address])
            made.put_node(name, Node(addresses=(address,)), 0)
    return sum(entry.callcount for entry in profile.getstats())
