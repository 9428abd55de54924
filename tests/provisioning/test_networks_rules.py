"""Networks: each fault names its key; ranges, addresses and slices as tables, without a server."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Any, Final

import pytest

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.networks import MacOwner, Network, NetworkAddress, RelaySegment
from nodepool_ocb.model.records import Create, Delete, Node, Set
from nodepool_ocb.provisioning.addressing import assigning, choosing, macs, networks, slices
from nodepool_ocb.provisioning.addressing.addressranges import span
from nodepool_ocb.provisioning.addressing.found import FoundAddress, FoundHoldings, FoundOwner
from nodepool_ocb.provisioning.addressing.ledger import HoldingsLedger
from nodepool_ocb.provisioning.addressing.placing import Placing

N1, N2 = "n1.example.com", "n2.example.com"
MAC, OTHER = "52:54:00:12:34:56", "52:54:00:12:34:57"
ADMIN: Final = Network(
    subnet="10.1.0.0/24",
    subnet6="fd00::/64",
    router="10.1.0.1",
    router6="fe80::1",
    ranges={
        "admin": "10.1.0.10-10.1.0.19",
        "host": "10.1.0.20-10.1.0.29",
        "dhcp": "10.1.0.100-10.1.0.199",
        "host6": "fd00::20-fd00::29",
    },
    segments=(
        RelaySegment(subnet="10.2.0.0/24", router="10.2.0.1", dhcp="10.2.0.100-10.2.0.199", host="10.2.0.9-10.2.0.9"),
    ),
)


def faults(*words: str, others: Mapping[str, Stored[Network]] | None = None) -> list[str]:
    """Of the network with these changes."""
    try:
        changed = assigning.assigned(ADMIN, (tuple(word.split("=", 1)) for word in words))  # type: ignore[misc]
        networks.checked("admin", changed, others or {})
    except Invalid as wrong:
        return [each.removeprefix("network admin: ") for each in wrong.problems]
    return []


def test_a_whole_network_is_valid() -> None:
    assert faults() == []
    assert faults("subnet6=", "router6=", "ranges.host6=", "vlan=4094", "mtu=9000", "proxy=true", "ranges.dhcp=") == []


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("subnet=10.1.0.7/24", "subnet: 10.1.0.7/24 has host bits set; write it as 10.1.0.0/24"),
        ("subnet=fd01::/64", "subnet: fd01::/64 is no subnet of IPv4"),
        ("subnet=10.1.0.0/31", "subnet: 10.1.0.0/31 is no subnet of IPv4 from /8 to /30"),
        ("subnet=127.0.0.0/24", "subnet: 127.0.0.0/24 has no addresses for machines"),
        ("subnet=", "ranges.host: there is no subnet; write it, or leave this out"),
        ("subnet6=", "router6: there is no subnet6"),
        ("router=10.1.0.255", "router: '10.1.0.255' is no machine's address in 10.1.0.0/24"),
        ("router=10.1.0.25", "ranges.host: 10.1.0.20-10.1.0.29 has the router 10.1.0.25"),
        ("router6=10.1.0.1", "router6: '10.1.0.1' is no machine's address in fd00::/64"),
        ("ranges.host=10.1.0.20-10.1.1.20", "ranges.host: 10.1.0.20-10.1.1.20 is not inside 10.1.0.0/24"),
        ("ranges.host=10.1.0.0-10.1.0.5", "ranges.host: 10.1.0.0-10.1.0.5 is not inside 10.1.0.0/24"),
        ("ranges.host=10.1.0.29-10.1.0.20", "does not rise"),
        ("ranges.host=10.1.0.20", "is no range of addresses"),
        ("ranges.host=10.1.0.20-fd00::1", "does not rise"),
        ("ranges.host6=10.1.0.40-10.1.0.50", "ranges.host6: 10.1.0.40-10.1.0.50 is not inside fd00::/64"),
        (
            "ranges.host=10.1.0.19-10.1.0.29",
            "ranges.host: 10.1.0.19-10.1.0.29 overlaps ranges.admin, which is 10.1.0.10",
        ),
        ("ranges.dhcp=10.1.0.100-10.1.0.102", "ranges.dhcp: 3 addresses are fewer than 4 slices"),
        ("ranges.pool=10.1.0.1-10.1.0.2", "a network has no field 'ranges.pool'"),
        ("domain=Example.com", "domain: 'Example.com' is no domain"),
        ("nameservers=dns.example.com", "nameservers: 'dns.example.com' is no address"),
        ("mtu=1000", "mtu: IPv6 needs 1280"),
        ("mtu=70000", "Expected `int` <= 9216"),
        ("vlan=4095", "Expected `int` <= 4094"),
        ("vlan=x", "vlan=x: "),
        ("proxy=yes", "proxy=yes: write true or false"),
        ("proxy=true", "ranges.dhcp: with proxy=true the existing DHCP server assigns addresses"),
        ("colour=red", "a network has no field 'colour'"),
        ("segments=[]x", "write JSON"),
        ('segments=[{"subnet": "10.1.0.128/25", "router": "10.1.0.129"}]', "it overlaps another subnet of the network"),
        ('segments=[{"subnet": "10.3.0.0/24", "router": ""}]', "it needs its own router"),
        ('segments=[{"subnet": "10.3.0.0/24", "router": "10.4.0.1"}]', "is no machine's address in 10.3.0.0/24"),
    ],
)
def test_each_fault_names_the_key_and_the_next_step(word: str, said: str) -> None:
    assert any(said in each for each in faults(word)), faults(word)


def test_all_faults_are_told_together_and_subnets_of_two_networks_are_disjoint() -> None:
    assert len(faults("router=10.9.0.1", "domain=-", "ranges.host=x")) == 3
    other = {"lab": Stored(Network(subnet="10.2.0.0/16"), 0)}
    assert faults(others=other) == ["subnet 10.2.0.0/24 overlaps 10.2.0.0/16 of network lab; write another one"]
    assert faults(others={"admin": Stored(ADMIN, 0)}) == []
    with pytest.raises(Invalid, match="its name"):
        networks.checked("a b", ADMIN, {})


def test_the_parts_of_a_range_are_disjoint_and_complete_for_each_count() -> None:
    for first, last in ((10, 13), (10, 19), (1, 254)):
        whole = span(f"10.1.0.{first}-10.1.0.{last}")
        for count in range(1, min(whole.size, 9) + 1):
            found = [whole.part(index, count) for index in range(count)]
            numbers = [n for each in found for n in range(int(each.first), int(each.last) + 1)]
            assert numbers == list(range(int(whole.first), int(whole.last) + 1)), (first, last, count)


def test_a_slice_stays_when_another_server_goes_or_comes_and_one_too_many_is_refused() -> None:
    made, admins = ADMIN, {f"a{n}" for n in range(6)}
    for n in range(4):
        made = slices.served("admin", made, f"a{n}", admins)
    assert slices.parts(made, "a1") == {"dhcp": "10.1.0.125-10.1.0.149", "10.2.0.0/24": "10.2.0.125-10.2.0.149"}
    with pytest.raises(Conflict, match="has 4 slices, and each has a server: a0, a1, a2, a3"):
        slices.served("admin", made, "a4", admins)
    gone = slices.unserved(made, "a1")
    assert {name: slices.parts(gone, name) for name in ("a0", "a2", "a3")} == {
        name: slices.parts(made, name) for name in ("a0", "a2", "a3")
    }
    assert slices.served("admin", gone, "a4", admins).slices == {"a0": 0, "a2": 2, "a3": 3, "a4": 1}
    assert slices.served("admin", made, "a5", admins - {"a0"}).slices["a5"] == 0
    assert slices.served("admin", made, "a1", admins) is made
    assert slices.parts(made, "a5") == {}


@pytest.mark.parametrize(
    "text", ["52:54:00:12:34", "01:00:5e:00:00:01", "00:00:00:00:00:00", "52:54-00:12:34:56", "ff:ff:ff:ff:ff:ff"]
)
def test_a_mac_of_no_single_machine_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="MAC"):
        macs.canonical(text)


# -- MACs and addresses of nodes --


def world(nodes: Mapping[str, Node] | None = None, **known: Network) -> World:
    made = World()
    for name, network in (known or {"admin": ADMIN}).items():
        made.put(Stored(network, 3), name)
    for fqdn, node in (nodes or {}).items():
        made.put_node(fqdn, node, 1)
    return made


def placing(made: World, fqdn: str = N1, node: Node | None = None, now: float = 1000.0, **found: Any) -> Placing:
    """Of a node that exists, if it is in the world."""
    held = FoundHoldings(**{"taken": {name: frozenset[str]() for name in made.of(Network)}, **found})
    return Placing(HoldingsLedger(made, held, now), fqdn, node or Node(), now, new=fqdn not in made.nodes)


def address(node: str | None = None, written: float = 0.0, former: str | None = None) -> FoundAddress:
    return FoundAddress(NetworkAddress(node=node, former=former), 5, written)


def test_a_new_node_gets_the_lowest_free_address_of_each_family() -> None:
    taken = {"admin": frozenset({"10.1.0.20", "10.1.0.21", "fd00::20"})}
    found = placing(world(), node=Node(macs=(MAC,)), taken=taken)
    found.create(None)
    assert found.node.networks == {"admin": ("10.1.0.22", "fd00::21")}
    assert (found.node.addresses, found.changes) == (("10.1.0.22",), [])


def test_an_admin_node_gets_an_address_of_its_own_range_and_a_node_with_another_address_keeps_it_first() -> None:
    found = placing(world(), node=Node(admin=True, addresses=("a.example.com",)))
    found.create("admin")
    assert (found.node.networks["admin"][0], found.node.addresses) == ("10.1.0.10", ("a.example.com",))


def test_an_address_of_a_node_without_a_record_is_left_out() -> None:
    found = placing(world({N2: Node(addresses=("10.1.0.20",))}), node=Node(macs=(MAC,)))
    found.create(None)
    assert found.node.networks["admin"][0] == "10.1.0.21"
    with pytest.raises(Conflict, match=f"node {N2} is at 10.1.0.20 already"):
        placing(world({N2: Node(addresses=("10.1.0.20",))})).take("admin", "10.1.0.20")


def test_a_released_address_is_free_after_its_quarantine_and_its_record_goes_first() -> None:
    known = {("admin", "10.1.0.20"): address(written=0.0, former=N2)}
    taken = {"admin": frozenset({"10.1.0.20"})}
    early = placing(world(), now=86_399.0, addresses=known, taken=taken)
    early.lowest("admin", named=True)
    assert early.node.networks["admin"][0] == "10.1.0.21"
    with pytest.raises(Conflict, match=rf"10.1.0.20 .* in quarantine, since {N2} had it, for 1 s more"):
        placing(world(), now=86_399.0, addresses=known, taken=taken).take("admin", "10.1.0.20")
    late = placing(world(), now=86_400.0, addresses=known, taken=taken)
    late.lowest("admin", named=True)
    assert late.node.networks["admin"][0] == "10.1.0.20"
    assert late.changes == [Delete(paths.network_address("admin", "10.1.0.20"), 5)]
    same = placing(world(), fqdn=N2, now=1.0, addresses=known, taken=taken)
    same.take("admin", "10.1.0.20")
    assert same.node.networks["admin"] == ("10.1.0.20",)


def test_an_allocation_sweeps_records_that_are_over_but_no_quarantine_and_no_owner() -> None:
    known = {
        ("admin", "10.1.0.25"): address(written=0.0, former=N2),
        ("admin", "10.1.0.26"): address(written=99_000.0, former=N2),
        ("admin", "10.1.0.27"): address(node=N2),
        ("admin", "10.1.0.28"): address(node="gone.example.com"),
    }
    taken = {"admin": frozenset(name for _, name in known)}
    found = placing(world({N2: Node(networks={"admin": ("10.1.0.27",)})}), now=100_000.0, addresses=known, taken=taken)
    found.lowest("admin", named=True)
    swept = {change.path.rpartition("/")[2] for change in found.changes if isinstance(change, Delete)}
    assert swept == {"10.1.0.25", "10.1.0.28"}


def test_a_mac_of_another_node_is_refused_by_name_and_one_of_a_node_that_is_gone_is_taken_over() -> None:
    owners = {MAC: FoundOwner(MacOwner(node=N2), 4)}
    with pytest.raises(Conflict, match=f"node {N2} has the MAC {MAC}"):
        placing(world({N2: Node(macs=(MAC,))}), node=Node(macs=(MAC,)), owners=owners).create(None)
    found = placing(world(), node=Node(macs=(MAC,)), owners=owners)
    found.create(None)
    assert found.changes[0] == Delete(paths.mac(MAC), 4)
    with pytest.raises(Conflict, match="cannot be read"):
        placing(world(), node=Node(macs=(MAC,)), owners={MAC: FoundOwner(None, 4)}).create(None)


def test_two_nodes_of_one_call_never_get_the_same() -> None:
    made = world()
    ledger = HoldingsLedger(made, FoundHoldings(taken={"admin": frozenset()}), 1.0)
    first, second = (Placing(ledger, fqdn, Node(), 1.0, new=True) for fqdn in (N1, N2))
    first.create("admin")
    second.create("admin")
    assert (first.node.networks["admin"][0], second.node.networks["admin"][0]) == ("10.1.0.20", "10.1.0.21")
    with pytest.raises(Conflict, match=f"allocated to {N1}"):
        Placing(ledger, N2, Node(), 1.0, new=True).take("admin", "10.1.0.20")
    first.own((MAC,))
    with pytest.raises(Conflict, match=f"node {N1} has the MAC"):
        second.own((MAC,))


def test_a_new_hint_replaces_the_mac_and_the_address_of_the_old_one() -> None:
    before = Node(
        macs=(MAC, OTHER),
        networks={"admin": ("10.1.0.20",)},
        addresses=("10.1.0.20", N1),
        hints={"admin-mac": MAC, "admin-v4addr": "10.1.0.20/24"},
    )
    found = placing(
        world({N1: before}),
        node=before,
        owners={MAC: FoundOwner(MacOwner(node=N1), 2), OTHER: FoundOwner(MacOwner(node=N1), 2)},
        addresses={("admin", "10.1.0.20"): address(node=N1)},
        taken={"admin": frozenset({"10.1.0.20"})},
    )
    found.change({"hints": {"admin-mac": "52:54:00:00:00:AA", "admin-v4addr": "10.1.0.21"}})
    assert found.fields == {
        "macs": ("52:54:00:00:00:aa", OTHER),
        "networks": {"admin": ("10.1.0.21",)},
        "addresses": ("10.1.0.21", N1),
    }
    assert found.changes == [
        Delete(paths.mac(MAC), 2),
        Create(paths.mac("52:54:00:00:00:aa"), MacOwner(node=N1)),
        Set(paths.network_address("admin", "10.1.0.20"), NetworkAddress(former=N1), 5),
        Create(
            paths.network_address("admin", "10.1.0.21"), NetworkAddress(node=N1, mac="52:54:00:00:00:aa", since=1000.0)
        ),
    ]


def test_several_networks_give_no_address_without_a_name_and_a_hint_must_be_in_the_named_one() -> None:
    made = world(admin=ADMIN, lab=Network(subnet="10.7.0.0/24", ranges={"host": "10.7.0.5-10.7.0.9"}))
    found = placing(made, node=Node(macs=(MAC,)))
    found.create(None)
    assert (found.node.networks, "several networks" in found.notes[0]) == ({}, True)
    with pytest.raises(Conflict, match="is in network lab, and not in admin"):
        placing(made, node=Node(hints={"admin-v4addr": "10.7.0.5"})).create("admin")
    with pytest.raises(NotFound, match="network x does not exist; there are: admin, lab"):
        placing(made).create("x")


def test_an_address_of_a_segment_is_allocated_by_name() -> None:
    found = placing(world(), node=Node(hints={"admin-v4addr": "10.2.0.9/24"}))
    found.create(None)
    assert found.node.networks == {"admin": ("10.2.0.9",)}
    with pytest.raises(Conflict, match="outside of the host range of network admin"):
        choosing.containing({"admin": Stored(ADMIN, 0)}, "10.2.0.10", admin=False)


def test_an_address_in_no_subnet_names_those_that_there_are() -> None:
    assert ip_address("10.3.0.1") not in ip_network("10.2.0.0/24")
    with pytest.raises(
        Conflict, match=r"no network has 10.3.0.1; there are: admin 10.1.0.0/24, admin fd00::/64, admin 10.2"
    ):
        choosing.hinted({"admin": Stored(ADMIN, 0)}, "10.3.0.1", admin=False)
