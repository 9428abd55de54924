"""Servers of DHCP that are not ours are heard and shown; ours, and that of a network of proxy mode, are not."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.boot import HeardServer, Publisher
from nodepool_ocb.model.networks import Network
from nodepool_ocb.model.records import Create, Node, NodeRole, Set, State
from nodepool_ocb.provisioning import boot, publishing
from nodepool_ocb.provisioning.servers import listening, serverfiles
from nodepool_ocb.testing.processes import await_that
from nodepool_ocb.testing.virtual.namespaces import Namespace
from nodepool_ocb.testing.virtual.network import VirtualNetwork, why_not
from nodepool_ocb.views.provisioning import databases
from nodepool_ocb.views.status import overview
from tests.catalogue.test_shipped_barclamps import IMPORTED
from tests.provisioning.adminnode import FQDN, NETWORK, AdminNode, admin_node

MISSING: Final = why_not("dnsmasq", "nginx", "cpio", "perl") or (
    None if Path("/usr/lib/ipxe/undionly.kpxe").exists() else "no iPXE here"
)
NAME: Final = f"{boot.DHCP}@{FQDN}"
SECOND: Final = "a2.example.com"
HEARD: Final = HeardServer(interface="eth0", own="10.1.0.2/24", server="192.168.1.1", offered="192.168.1.55")


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[AdminNode]:
    with admin_node(tmp_path) as made:
        yield made


@contextlib.contextmanager
def served(admin: AdminNode, name: str, address: str, *lines: str) -> Iterator[None]:
    """Another host on the network, with a dnsmasq that has this configuration."""
    config = admin.folder / f"{name}.conf"
    leases = f"dhcp-leasefile={admin.folder}/{name}.leases"
    config.write_text("\n".join(["port=0", "log-facility=-", "bind-dynamic", "interface=eth0", leases, *lines]) + "\n")
    with Namespace(admin.folder, name) as host:
        admin.network.attach(host, address)
        words = ("dnsmasq", "--keep-in-foreground", f"--conf-file={config}")
        with host.start(*words, deadline_seconds=120.0) as server:
            await_that(lambda: "DHCP, IP range" in server.said, 20.0, "it serves")
            yield


@pytest.mark.long
@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
def test_a_strange_server_is_heard_and_our_second_one_is_not(admin: AdminNode) -> None:
    admin.world.put(Stored(replace(NETWORK, slices={FQDN: 1, SECOND: 2}), 0), "admin")
    assert admin.publish() == 0, admin.output
    admin.world.put_node(SECOND, Node(alive=True, admin=True), 1)
    admin.world.put_noderole(SECOND, boot.DHCP, NodeRole(state=State.ACTIVE, since=1.0))
    ours = (
        serverfiles.dhcp(admin.world, SECOND)
        .replace("@ROOT@", str(admin.folder))
        .replace("@SERVER@", "http://10.1.0.3")
    )
    kept = [
        line
        for line in ours.splitlines()
        if not line.startswith(("dhcp-hostsfile", "dhcp-optsfile", "dhcp-leasefile", "conf-dir"))
    ]
    router = served(admin, "router", "192.168.1.1/24", "dhcp-range=192.168.1.50,192.168.1.60")
    with served(admin, "second", "10.1.0.3/24", *kept), router:
        assert admin.publish() == 0, admin.output  # the second server is news for the configuration
        assert admin.publish() == 0, admin.output  # nothing is due, so it listens
        [found] = listening.strangers(admin.world)
        assert (found.server, found.network, found.heard_by, found.interface) == ("192.168.1.1", "admin", FQDN, "eth0")
        assert found.offered.startswith("192.168.1.5")
        publisher = admin.world.of(Publisher)[NAME].record
        assert (publisher.addresses, publisher.fault, publisher.listened) == (("10.1.0.2",), "", 9.0)
        assert [each.server for each in publisher.heard] == ["192.168.1.1"], "our second server ignores the MAC"
        assert (admin.folder / "router.leases").read_text() == "", "no address was taken"
    assert admin.publish() == 0, admin.output
    assert listening.strangers(admin.world) == (), "it is gone"


#: Answers each request for an address with offers of so many servers, each so many times.
_FLOOD: Final = """\
import socket, struct, sys, time
servers, times = int(sys.argv[1]), int(sys.argv[2])
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
s.bind(("eth0", 0x0800))
s.settimeout(20.0)
print("listens", flush=True)
end = time.monotonic() + 20.0
while time.monotonic() < end:
    data = s.recv(4096)
    if data[9] != 17 or data[22:24] != struct.pack("!H", 67):
        continue
    asked = data[28:]
    for number in range(servers * times):
        server = socket.inet_aton(f"10.66.0.{number % servers + 1}")
        offer = b"\\2\\1\\6\\0" + asked[4:8] + bytes(8) + socket.inet_aton("10.66.0.99") + bytes(8) + asked[28:44] + bytes(192)
        offer += b"\\x63\\x82\\x53\\x63" + bytes([53, 1, 2, 54, 4]) + server + b"\\xff"
        udp = struct.pack("!4H", 67, 68, 8 + len(offer), 0) + offer
        words = 0x4500, 20 + len(udp), 1, 0, 0x4011, 0, *struct.unpack("!2H", server), 0xFFFF, 0xFFFF
        total = sum(words)
        head = struct.pack("!10H", *words[:5], ~(total + (total >> 16)) & 0xFFFF, *words[6:])
        s.sendto(head + udp, ("eth0", 0x0800, 0, 0, b"\\xff" * 6))
"""


@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
@pytest.mark.parametrize(
    ("servers_", "times", "noted", "more"),
    [
        (60, 1, 20, True),
        pytest.param(3, 2, 3, False, marks=pytest.mark.long),
        pytest.param(2, 2000, 2, True, marks=pytest.mark.long),
    ],
)
def test_a_flood_of_offers_is_read_to_a_bound_and_said(
    tmp_path: Path, servers_: int, times: int, noted: int, more: bool
) -> None:
    """The program that a role puts on admin nodes, alone."""
    text = IMPORTED.roles["provisioner-server"].script or ""
    (tmp_path / "listen.pl").write_text(text.partition("state/listen.pl\" <<'EOF'\n")[2].partition("\nEOF\n")[0])
    with (
        VirtualNetwork(tmp_path) as network,
        Namespace(tmp_path, "asks") as asks,
        Namespace(tmp_path, "floods") as host,
    ):
        network.attach(asks, "10.66.0.250/24")
        network.attach(host, "10.66.0.251/24")
        words = (sys.executable, "-c", _FLOOD, str(servers_), str(times))
        with host.start(*words, deadline_seconds=60.0) as flood:
            await_that(lambda: "listens" in flood.said, 20.0, "it listens")
            index = asks.run("ip", "-o", "link", "show", "eth0").partition(":")[0]
            (tmp_path / "links").write_text(f"{index} eth0 10.66.0.250/24\n")
            said = asks.run("perl", f"{tmp_path}/listen.pl", "020000000001", "3", f"{tmp_path}/links").splitlines()
    assert ("more" in said[-1:]) is more, flood.said
    offers = [line.split() for line in said if line != "more"]
    assert len({server for _, _, server, _ in offers}) == len(offers) == noted, "each server once"


# -- the records alone --


def world(network: Network = NETWORK, **fields: Any) -> World:
    made = World()
    made.put(Stored(network, 0), "admin")
    made.put_node(FQDN, Node(alive=True, admin=True), 1)
    made.put_noderole(FQDN, boot.DHCP, NodeRole(state=State.ACTIVE, since=1.0))
    made.put(Stored(Publisher(directory="d", listened=100.0, **fields), 0), NAME)
    return made


def servers(found: World) -> list[str]:
    return [each.server for each in listening.strangers(found)]


def test_a_server_of_ours_and_one_on_a_foreign_network_are_no_strangers() -> None:
    assert servers(world(heard=(HEARD,))) == ["192.168.1.1"]
    ours = Publisher(directory="e", addresses=("10.1.0.3", "192.168.1.1"))
    known = world(heard=(HEARD,))
    known.put(Stored(ours, 0), f"{boot.DHCP}@{SECOND}")
    assert servers(known) == [], "it has not read yet that it must not answer"
    assert servers(world(heard=(replace(HEARD, own="172.16.0.2/16"),))) == [], "the uplink of the admin node"
    gone = world(heard=(HEARD,))
    gone.drop_noderole(FQDN, boot.DHCP)
    assert servers(gone) == [], "it does not look any more"


def test_the_existing_server_of_a_network_of_proxy_mode_is_none_and_one_with_a_boot_file_alone_is() -> None:
    proxy = Network(subnet="10.1.0.0/24", proxy=True)
    assert servers(world(proxy, heard=(HEARD,))) == []
    assert servers(world(proxy, heard=(HEARD, replace(HEARD, server="10.1.0.66", offered="0.0.0.0")))) == ["10.1.0.66"]


def test_status_and_explain_name_the_stranger() -> None:
    found = world(heard=(HEARD,), fault="perl is not installed")
    [row] = overview(found, {}, (), {}, {}, now=160.0).strangers
    assert (row.server, row.heard_by, row.since) == ("192.168.1.1", f"eth0 of {FQDN}", 100.0)
    vertex = found.vertex(NAME)
    assert vertex is not None
    *_, strange, fault = databases.sentences(found, vertex, 160.0)
    assert strange.startswith(
        "a server of DHCP that is not ours, 192.168.1.1, offers 192.168.1.55 on network admin (eth0 of"
    )
    assert fault == "it could not look for other servers of DHCP: perl is not installed"


@pytest.mark.parametrize(
    "given",
    [
        {"heard": [{"interface": "eth0", "own": "10.1.0.2/24", "server": "x", "offered": "0.0.0.0"}], "addresses": []},
        {"heard": [], "addresses": ["x"]},
        {"heard": "none", "addresses": []},
        {
            "heard": [{"interface": "e" * 65, "own": "10.1.0.2/24", "server": "10.1.0.3", "offered": "0.0.0.0"}],
            "addresses": [],
        },
        {},
    ],
)
def test_an_odd_answer_of_a_machine_changes_nothing(given: Mapping[str, Any]) -> None:
    before = world(heard=(HEARD,))
    returned = {"provisioner": {"published": {}, "directory": "d", **given}}
    assert publishing.records(before, NAME, returned, 700.0) == []


def test_explain_and_status_say_that_there_were_more_than_could_be_noted() -> None:
    before = world()
    heard = [msgspec.to_builtins(replace(HEARD, server=f"192.168.1.{number}")) for number in range(1, 21)]
    for more in (False, True):
        returned = {"provisioner": {"published": {}, "directory": "d", "heard": heard, "addresses": [], "more": more}}
        [change] = publishing.records(before, NAME, returned, 700.0)
        assert isinstance(change, Set)
        assert isinstance(change.data, Publisher)
        assert change.data.more is more
    after = world(heard=change.data.heard, more=True)
    vertex = after.vertex(NAME)
    assert vertex is not None
    assert [*databases.sentences(after, vertex, 160.0)][-1].startswith(
        "more servers of DHCP or offers came than it reads"
    )
    rows = overview(after, {}, (), {}, {}, now=160.0).strangers
    assert {row.advice.partition("; ")[2] for row in rows} == {"there were more than are listed"}


def test_a_fault_keeps_the_servers_that_were_heard_and_a_look_is_due_again_later() -> None:
    before = world(heard=(HEARD,))
    returned = {"provisioner": {"published": {}, "directory": "d", "fault": "a packet socket: Operation not permitted"}}
    [change] = publishing.records(before, NAME, returned, 700.0)
    assert isinstance(change, Set)
    assert isinstance(change.data, Publisher)
    assert (change.data.heard, change.data.listened) == ((HEARD,), 700.0)
    assert [listening.due(before, NAME, now, 600.0) for now in (699.0, 700.0)] == [False, True]
    assert not listening.due(before, NAME, 1e9, 0.0), "it is switched off"
    [first, *_] = publishing.records(World(), NAME, {"provisioner": {"published": {}, "directory": "d"}}, 700.0)
    assert isinstance(first, Create)
    assert isinstance(first.data, Publisher)
    assert first.data.listened == 700.0, "the first publication does not wait for it"


def test_a_publisher_with_a_name_that_is_no_noderole_stops_no_daemon() -> None:
    found = World()
    found.put(Stored(Publisher(heard=(HEARD,)), 0), "victim")
    assert listening.strangers(found) == ()
