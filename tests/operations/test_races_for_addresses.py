"""Two clients, and many, want one MAC or one address: on a real ZooKeeper one wins, and the other is told the owner."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address
from typing import Any, Final

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine import holdings
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.networks import MacOwner
from nodepool_ocb.model.records import Create, Fence, Node, Set, Structure
from nodepool_ocb.operations.networks.allocating import NetworkAllocate, NetworkRelease
from nodepool_ocb.operations.networks.changing import NetworkCreate, NetworkDelete, NetworkSet, NewNetwork
from nodepool_ocb.operations.nodes.changing import NodeSet
from nodepool_ocb.operations.nodes.creating import NewNode, NodeCreate
from nodepool_ocb.operations.nodes.deleting import NodeDelete
from nodepool_ocb.operations.nodes.renaming import NodeRename
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.store import networks as store
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.operations.performing import InterruptedPerformer, calm

N1, N2, N3 = "n1.example.com", "n2.example.com", "n3.example.com"
MAC, OTHER = "52:54:00:12:34:56", "52:54:00:12:34:57"
HINTED: Final = NewNode(hints={"admin-mac": MAC, "admin-v4addr": "10.1.0.25"})


@pytest.fixture
def network(zk_session: Session, zk_settings: ZooKeeperSettings) -> Session:
    words = (
        "subnet=10.1.0.0/20",
        "ranges.host=10.1.0.20-10.1.15.200",
        "subnet6=fd00::/64",
        "ranges.host6=fd00::20-fd00::ffff",
    )
    calm(zk_settings).perform(NetworkCreate(name="admin", network=NewNetwork.of(words)))
    return zk_session


def node(session: Session, fqdn: str) -> Node:
    record = load_world(session).nodes[fqdn].record
    assert record is not None
    return record


def agreeing(session: Session) -> dict[str, str]:
    """The node of each allocated address. The records of addresses, MACs and nodes must say the same."""
    world = load_world(session)
    records = {fqdn: view.record for fqdn, view in world.nodes.items() if view.record is not None}
    found = {a: each.record.node for a, each in store.addresses(session, "admin").items() if each.record is not None}
    owned = {address: fqdn for address, fqdn in found.items() if fqdn is not None}
    assert owned == {a: fqdn for fqdn, each in records.items() for a in each.networks.get("admin", ())}
    assert sorted(session.children(paths.MACS) or ()) == sorted(mac for each in records.values() for mac in each.macs)
    assert all(
        count == 1 for count in Counter(a for each in records.values() for a in each.networks.get("admin", ())).values()
    )
    return owned


CONTESTS: Final[dict[str, tuple[Operation[Any], str]]] = {
    "a creation with the same MAC": (
        NodeCreate(name=N2, node=NewNode(macs=(MAC,))),
        f"node {N1} has the MAC {MAC} already",
    ),
    "a creation with the same address": (
        NodeCreate(name=N2, node=NewNode(hints={"admin-v4addr": "10.1.0.25"})),
        f"10.1.0.25 of network admin is allocated to {N1} already",
    ),
    "a change to the same MAC": (
        NodeSet(nodes=(N3,), assignments=(f"macs={MAC}",)),
        f"node {N1} has the MAC {MAC} already",
    ),
    "an allocation of the same address": (
        NetworkAllocate(network="admin", node=N3, address="10.1.0.25"),
        f"10.1.0.25 of network admin is allocated to {N1} already",
    ),
    "a deletion of the network": (NetworkDelete(network="admin"), f"has allocated addresses: 10.1.0.25 ({N1})"),
    "a change of its subnet": (
        NetworkSet(network="admin", assignments=("subnet=10.9.0.0/24", "ranges.host=")),
        f"10.1.0.25 ({N1}) would be in no subnet",
    ),
}


@pytest.mark.parametrize("loser", CONTESTS)
def test_the_slower_of_two_clients_is_refused_and_told_the_owner(
    network: Session, zk_settings: ZooKeeperSettings, loser: str
) -> None:
    operation, said = CONTESTS[loser]
    if "allocation" in loser or "change to" in loser:
        calm(zk_settings).perform(NodeCreate(name=N3))
    slower = InterruptedPerformer(zk_settings, lambda: calm(zk_settings).perform(NodeCreate(name=N1, node=HINTED)))
    with pytest.raises(Conflict) as refused:
        slower.perform(operation)
    assert said in str(refused.value)
    assert agreeing(network)["10.1.0.25"] == N1


def test_a_release_and_a_deletion_at_the_same_time_leave_records_that_agree(
    network: Session, zk_settings: ZooKeeperSettings
) -> None:
    calm(zk_settings).perform(NodeCreate(name=N1, node=HINTED))
    slower = InterruptedPerformer(zk_settings, lambda: calm(zk_settings).perform(NodeRename(node=N1, name=N2)))
    with pytest.raises(Exception, match=f"node {N1} does not exist"):
        slower.perform(NetworkRelease(network="admin", node=N1))
    assert agreeing(network) == {"10.1.0.25": N2}
    slower = InterruptedPerformer(
        zk_settings, lambda: calm(zk_settings).perform(NetworkAllocate(network="admin", node=N2))
    )
    slower.perform(NodeDelete(nodes=(N2,)))
    assert agreeing(network) == {}


def test_a_record_that_a_hand_deleted_or_left_hinders_no_deletion_and_no_creation(
    network: Session, zk_settings: ZooKeeperSettings
) -> None:
    calm(zk_settings).perform(NodeCreate(name=N1, node=HINTED))
    network._client.delete(paths.network_address("admin", "10.1.0.25"))
    network._client.set(paths.mac(MAC), b"{")
    calm(zk_settings).perform(NodeDelete(nodes=(N1,)))
    network.commit([Create(paths.mac(OTHER), MacOwner(node="gone.example.com"))])
    calm(zk_settings).perform(NodeCreate(name=N2, node=NewNode(macs=(MAC, OTHER))))
    assert agreeing(network) == {"10.1.0.20": N2, "fd00::20": N2}


def _side_by_side(settings: ZooKeeperSettings, clients: int, each: int) -> None:
    """Each client creates nodes one after the other, with MACs of their own."""
    faults: list[BaseException] = []

    def create(client: int) -> None:
        try:
            for n in range(each):
                new = NewNode(macs=(f"52:54:00:00:{client:02x}:{n:02x}",))
                calm(settings).perform(NodeCreate(name=f"n{client}-{n}.example.com", node=new))
        except BaseException as fault:
            faults.append(fault)
            raise

    threads = [threading.Thread(target=create, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=900)
    assert not faults
    assert not any(thread.is_alive() for thread in threads)


def _lowest(count: int) -> set[str]:
    return {f"10.1.0.{n}" for n in range(20, 20 + count)} | {f"fd00::{n:x}" for n in range(0x20, 0x20 + count)}


def test_nodes_that_are_created_side_by_side_get_the_lowest_addresses_and_none_twice(
    network: Session, zk_settings: ZooKeeperSettings
) -> None:
    _side_by_side(zk_settings, 3, 4)
    assert set(agreeing(network)) == _lowest(12)


def _populated(session: Session, count: int) -> None:
    """Nodes with an address of each family and a MAC, in few transactions."""
    units = []
    for n in range(count):
        v4, v6 = str(IPv4Address("10.1.0.20") + n), f"fd00::{0x20 + n:x}"
        fqdn, mac = f"m{n}.example.com", f"52:54:00:01:{n >> 8:02x}:{n & 255:02x}"
        record = Node(macs=(mac,), networks={"admin": (v4, v6)}, addresses=(v4,))
        own = [Create(paths.node(fqdn), record), Create(paths.fence(fqdn), Fence()), Create(paths.noderoles(fqdn))]
        units.append([*own, *holdings.created(fqdn, record, 1.0)])
    for part in limits.parts(units):
        stored = session.get(paths.STRUCTURE)
        assert stored is not None
        session.commit([*part, Set(paths.STRUCTURE, Structure(), stored.version)])


@pytest.mark.long
def test_a_node_among_two_thousand_with_two_addresses_each_costs_little_more_than_one_without_an_address(
    network: Session, zk_settings: ZooKeeperSettings
) -> None:
    _populated(network, 2000)

    def seconds(made: NodeCreate) -> float:
        started = time.perf_counter()
        calm(zk_settings).perform(made)
        return time.perf_counter() - started

    bare = [seconds(NodeCreate(name=f"bare{n}.example.com")) for n in range(5)]
    macs = [f"52:54:00:00:00:{n:02x}" for n in range(5)]
    held = [seconds(NodeCreate(name=f"n{n}.example.com", node=NewNode(macs=(mac,)))) for n, mac in enumerate(macs)]
    print(f"a node among 2,000: {min(bare):.3f} s without, {min(held):.3f} s with two addresses")
    assert node(network, "n4.example.com").networks == {"admin": (str(IPv4Address("10.1.0.20") + 2004), "fd00::7f4")}
    assert min(held) < 1.5 * min(bare) + 0.1


@pytest.mark.long
def test_two_hundred_nodes_that_are_created_side_by_side_have_no_address_twice(
    network: Session, zk_settings: ZooKeeperSettings
) -> None:
    _side_by_side(zk_settings, 8, 25)
    assert set(agreeing(network)) == _lowest(200)


def test_a_creation_reads_one_listing_of_a_network_and_no_address_of_a_node(
    network: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        calm(zk_settings).perform(NodeCreate(name=f"n{n}.example.com", node=NewNode(), network="admin"))
    asked: list[str] = []
    read: Callable[..., Any] = Session.get_many

    def counted(own: Session, wanted: Iterable[str]) -> Any:
        wanted = list(wanted)
        asked.extend(wanted)
        return read(own, wanted)

    monkeypatch.setattr(Session, "get_many", counted)
    calm(zk_settings).perform(NodeCreate(name=N3 + ".example.com", node=NewNode(macs=(MAC,))))
    assert [each for each in asked if each.startswith((paths.NETWORKS, paths.MACS))] == [paths.mac(MAC)]
    assert len(agreeing(network)) == 8
