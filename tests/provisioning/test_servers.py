"""The shipped roles of the provisioner on real dnsmasq and nginx: publications, refused configurations, strangers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model.boot import Publisher
from nodepool_ocb.model.networks import Network
from nodepool_ocb.model.records import Node
from nodepool_ocb.provisioning import boot, publications
from nodepool_ocb.testing.virtual.machine import Firmware, VirtualHardware, VirtualMachine
from nodepool_ocb.testing.virtual.namespaces import Namespace
from nodepool_ocb.testing.virtual.network import machines_turn, why_not
from tests.provisioning.adminnode import (
    FQDN,
    HTTP,
    IPXE,
    NETWORK,
    SERVER,
    AdminNode,
    admin_node,
    architecture,
    offer,
)

MISSING = why_not("dnsmasq", "nginx", "cpio") or (
    None if Path("/usr/lib/ipxe/undionly.kpxe").exists() else "no iPXE here"
)
pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")

N1, N2, MAC1, MAC2, STRANGE = (
    "n1.example.com",
    "n-2.x-y.example.com",
    "52:54:00:00:00:01",
    "52:54:00:00:00:02",
    "52:54:00:00:00:99",
)
TOP = "/srv/nodepool-ocb"
SCRIPT1 = "http/boot/52-54-00-00-00-01.ipxe"


#: Asks our DNS for the address of a name, and prints it; an empty line if there is none.
ASK = """\
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
labels = b"".join(bytes([len(part)]) + part.encode() for part in sys.argv[1].split("."))
s.sendto(bytes([0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + labels + bytes([0, 0, 1, 0, 1]), ("10.1.0.2", 53))
answer = s.recv(512)
print(socket.inet_ntoa(answer[-4:]) if answer[7] else "")
"""


def node(number: int, bootenv: str = "rescue") -> Node:
    return Node(macs=(f"52:54:00:00:00:0{number}",), networks={"admin": (f"10.1.0.2{number}",)}, bootenv=bootenv)


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[AdminNode]:
    with admin_node(tmp_path) as made:
        made.world.put_node(N1, node(1), 1)
        made.world.put_node(N2, node(2, "local"), 1)
        yield made


@pytest.fixture
def client(admin: AdminNode, tmp_path: Path) -> Iterator[Namespace]:
    with Namespace(tmp_path, "client") as made:
        admin.network.attach(made, "10.1.0.9/24")
        yield made


def fetched(client: Namespace, path: str, *words: str) -> str:
    """The status of a request, and its body."""
    return client.run("curl", "-s", "--path-as-is", "-m", "10", "-w", "%{http_code}", *words, f"{SERVER}{path}")


def test_machines_get_the_address_and_the_file_that_the_records_say(admin: AdminNode, client: Namespace) -> None:
    assert admin.publish() == 0, admin.output
    assert publications.unpublished(admin.world, N1) == ()
    own = offer(client, MAC1, IPXE)
    assert own == {"address": "10.1.0.21", "file": f"{SERVER}/boot/52-54-00-00-00-01.ipxe", "server": "10.1.0.2"}
    assert offer(client, MAC1, architecture(0))["file"] == "undionly.kpxe"
    assert offer(client, MAC1, architecture(7))["file"] == "ipxe.efi"
    assert offer(client, MAC1, architecture(16), HTTP)["file"] == f"{SERVER}/ipxe.efi"
    local = offer(client, MAC2, IPXE)
    assert (local["address"], local["file"]) == ("10.1.0.22", "")
    assert offer(client, MAC2, architecture(0))["file"] == ""
    unknown = offer(client, STRANGE, IPXE)
    assert 110 <= int(unknown["address"].rpartition(".")[2]) < 120, "of the part of this server"
    assert unknown["file"] == f"{SERVER}/boot/default.ipxe"

    # one change rewrites one file and one record
    before = admin.files()
    admin.world.put_node(N1, node(1, "local"), 2)
    assert list(publications.due(admin.world, f"{boot.DHCP}@{FQDN}")) == [N1]
    assert admin.publish() == 0, admin.output
    after = admin.files()
    assert set(before) - set(after) == {SCRIPT1, f"boots.d/{N1}.conf"}
    assert {path for path in after if after[path] != before[path]} == {f"hosts.d/{N1}"}
    assert offer(client, MAC1, IPXE)["file"] == ""

    # a deleted node is a stranger again
    admin.world.drop_node(N1)
    assert admin.publish() == 0, admin.output
    assert not [path for path in admin.files() if N1 in path]
    assert offer(client, MAC1, IPXE)["address"] != "10.1.0.21"
    assert list(publications.due(admin.world, f"{boot.DHCP}@{FQDN}")) == []


def test_a_stranger_reads_no_list_no_other_file_and_changes_nothing(admin: AdminNode, client: Namespace) -> None:
    assert admin.publish() == 0, admin.output
    assert fetched(client, "/boot/52-54-00-00-00-01.ipxe").endswith("200")
    for path in (
        "/boot/",
        "/",
        "/images/",
        "/../state/id",
        "/boot/../../state/address",
        "/boot/%2e%2e/%2e%2e/state/id",
    ):
        assert fetched(client, path)[-3:] in ("400", "403", "404"), path
    assert fetched(client, "/boot/default.ipxe", "-X", "PUT", "-d", "x").endswith("405")
    assert client.run("curl", "-s", "-m", "10", "tftp://10.1.0.2/undionly.kpxe", "-o", "/dev/null") == ""
    with pytest.raises(RuntimeError):
        client.run("curl", "-s", "-m", "3", "tftp://10.1.0.2/../state/id")


def test_a_wrong_configuration_is_refused_and_the_old_one_goes_on(admin: AdminNode, client: Namespace) -> None:
    assert admin.publish() == 0, admin.output
    admin.world.put(Stored(replace(NETWORK, router="not-an-address"), 1), "admin")
    assert admin.publish() == 1
    assert "was not activated" in admin.output
    assert "dnsmasq: " in admin.output
    assert offer(client, MAC1, IPXE)["address"] == "10.1.0.21"
    assert publications.unpublished(admin.world, N1) == (), "the files of nodes are as they were"
    assert (
        admin.run("provisioner-server", {"provisioner/templates/nginx.conf": "events {} http { nonsense on; }"})[0] == 1
    )
    assert 'unknown directive "nonsense"' in admin.output
    assert fetched(client, "/boot/default.ipxe").endswith("200")


@pytest.mark.long
def test_a_lost_directory_is_written_anew(admin: AdminNode) -> None:
    name = f"{boot.DHCP}@{FQDN}"
    assert admin.publish() == 0, admin.output
    before = publications.directory(admin.world, name)
    admin.host.run("sh", "-c", f"kill $(cat {TOP}/run/dnsmasq.pid {TOP}/run/nginx.pid); rm -rf {TOP}")
    assert admin.server() == 0, admin.output
    assert admin.publish() == 0, admin.output
    assert publications.directory(admin.world, name) not in ("", before)
    assert list(publications.due(admin.world, name)) == [publications.OWN, N2, N1]
    assert admin.publish() == 0, admin.output
    assert list(publications.due(admin.world, name)) == []
    assert f"hosts.d/{N1}" in admin.files()
    assert admin.world.of(Publisher)[name].record.directory == publications.directory(admin.world, name)
    assert admin.world.of(Publisher)[name].record.log == f"{TOP}/log/access.log"


def test_names_of_nodes_are_answered(admin: AdminNode, client: Namespace) -> None:
    admin.world.put(Stored(Network(subnet="10.1.0.0/24", domain="example.com"), 1), "admin")
    assert admin.publish(boot.DNS) == 0, admin.output
    for name, address in ((N1, "10.1.0.21"), ("nobody.example.com", "")):
        assert client.run("python3", "-c", ASK, name).strip() == address


@pytest.mark.long
def test_a_machine_boots_the_script_of_its_node_by_bios(tmp_path: Path) -> None:
    _boots(tmp_path, VirtualHardware(macs=(MAC1,), memory_mb=96))


@pytest.mark.long
def test_a_machine_boots_the_script_of_its_node_by_uefi_without_ipxe_of_its_card(tmp_path: Path) -> None:
    _boots(tmp_path, VirtualHardware(macs=(MAC1,), memory_mb=256, firmware=Firmware.UEFI, ipxe_card=False), 300.0)


@pytest.mark.long
def test_the_files_of_2000_nodes_are_written_in_seconds_and_a_change_rewrites_one(admin: AdminNode) -> None:
    for number in range(2000):
        place = f"{number >> 8}.{number & 255}"
        mac = f"52:54:01:00:{number >> 8:02x}:{number & 255:02x}"
        admin.world.put_node(
            f"n{number}.example.com", Node(macs=(mac,), networks={"admin": (f"10.2.{place}",)}, bootenv="rescue"), 1
        )
    name, began, runs = f"{boot.DHCP}@{FQDN}", time.monotonic(), 0
    while list(publications.due(admin.world, name)):
        assert admin.publish() == 0, admin.output
        runs += 1
    assert runs == 11, "200 documents with each"
    assert time.monotonic() - began < 120.0
    admin.world.put_node("n7.example.com", Node(macs=("52:54:01:00:00:07",), bootenv="rescue"), 2)
    before = admin.files()
    assert admin.publish() == 0, admin.output
    after = admin.files()
    own = {"hosts.d/n7.example.com", "boots.d/n7.example.com.conf", "http/boot/52-54-01-00-00-07.ipxe"}
    assert {path for path in after if after[path] != before[path]} <= own, "the files of this node alone"
    assert "10.2.0.7" not in admin.read("hosts.d/n7.example.com")


def _boots(folder: Path, hardware: VirtualHardware, seconds: float = 90.0) -> None:
    with machines_turn(), admin_node(folder) as admin:
        admin.world.put_node(N1, node(1), 1)
        assert admin.publish() == 0, admin.output
        image = f"{TOP}/http/images/environment"
        newest = "#!ipxe\\nset build 0000000001\\nset root_sha256 00\\n"
        made = f"mkdir -p {image}/0000000001 && printf '{newest}' >{image}/newest.ipxe && echo x >{image}/0000000001/vmlinuz"
        admin.host.run("sh", "-c", made)
        with VirtualMachine(admin.network, "n1", hardware) as machine:
            machine.on()
            log = f"{TOP}/log/access.log"
            machine.await_that(lambda: "vmlinuz" in admin.host.run("cat", log), seconds, "request for the kernel")
            said = admin.host.run("cat", log)
        assert "GET /boot/52-54-00-00-00-01.ipxe" in said
        assert 'GET /images/environment/0000000001/vmlinuz HTTP/1.1" 200' in said
