"""Networks as dnsmasq serves them: beside an existing server, behind a relay, and with IPv6."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model.networks import Network, RelaySegment
from nodepool_ocb.model.records import Node
from nodepool_ocb.testing.processes import await_that
from nodepool_ocb.testing.virtual.machine import Firmware, VirtualHardware, VirtualMachine
from nodepool_ocb.testing.virtual.namespaces import Namespace
from nodepool_ocb.testing.virtual.network import VirtualNetwork, machines_turn, why_not
from tests.provisioning.adminnode import IPXE, NETWORK, SERVER, TOP, AdminNode, admin_node, architecture, offers

MISSING: Final = why_not("dnsmasq", "nginx", "cpio") or (
    None if Path("/usr/lib/ipxe/undionly.kpxe").exists() else "no iPXE here"
)
pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")

N1, MAC1, STRANGE = "n1.example.com", "52:54:00:00:00:01", "52:54:00:00:00:99"
PXE: Final = bytes([60, 32]) + b"PXEClient:Arch:00000:UNDI:002001"


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[AdminNode]:
    with admin_node(tmp_path) as made:
        yield made


@contextlib.contextmanager
def served(admin: AdminNode, host: Namespace, *lines: str, awaits: str = "DHCP, IP range") -> Iterator[None]:
    """A dnsmasq of another host, with this configuration."""
    config = admin.folder / f"{host.name}.conf"
    leases = f"dhcp-leasefile={admin.folder}/{host.name}.leases"
    config.write_text("\n".join(["port=0", "log-facility=-", "bind-dynamic", leases, *lines]) + "\n")
    with host.start("dnsmasq", "--keep-in-foreground", f"--conf-file={config}", deadline_seconds=120.0) as server:
        await_that(lambda: awaits in server.said, 20.0, "it serves")
        yield


def test_beside_an_existing_server_each_machine_gets_its_address_there_and_its_boot_file_from_us(
    admin: AdminNode, tmp_path: Path
) -> None:
    admin.world.put(Stored(Network(subnet="10.1.0.0/24", proxy=True), 1), "admin")
    admin.world.put_node(N1, Node(macs=(MAC1,), bootenv="rescue"), 1)
    assert admin.publish() == 0, admin.output
    with Namespace(tmp_path, "client") as client, Namespace(tmp_path, "existing") as existing:
        admin.network.attach(client, "10.1.0.9/24")
        admin.network.attach(existing, "10.1.0.1/24")
        with served(admin, existing, "dhcp-range=10.1.0.150,10.1.0.160"):

            def boots(mac: str, *words: bytes) -> str:
                """The boot file of our server; the address is that of the other one."""
                found = {each["by"]: each for each in offers(client, mac, PXE, *words)}
                assert found["10.1.0.1"]["address"].startswith("10.1.0.15")
                assert (found["10.1.0.2"]["address"], found["10.1.0.2"]["router"]) == ("0.0.0.0", "")
                return found["10.1.0.2"]["file"]

            assert boots(STRANGE, architecture(0)) == "undionly.kpxe"
            assert boots(STRANGE, architecture(0), IPXE) == f"{SERVER}/boot/default.ipxe"
            assert boots(MAC1, architecture(0), IPXE) == f"{SERVER}/boot/52-54-00-00-00-01.ipxe"


@pytest.mark.long
def test_a_segment_behind_a_relay_gets_addresses_and_files_of_its_own(admin: AdminNode, tmp_path: Path) -> None:
    segment = RelaySegment(subnet="10.2.0.0/24", router="10.2.0.1", dhcp="10.2.0.100-10.2.0.139")
    admin.world.put(Stored(replace(NETWORK, segments=(segment,)), 1), "admin")
    admin.world.put_node(N1, Node(macs=(MAC1,), networks={"admin": ("10.2.0.21",)}, bootenv="rescue"), 1)
    assert admin.publish() == 0, admin.output
    far = VirtualNetwork(tmp_path, "segment")
    with far, Namespace(tmp_path, "client") as client, Namespace(tmp_path, "relay") as relay:
        admin.network.attach(relay, "10.1.0.7/24")
        far.attach(relay, "10.2.0.1/24", interface="eth1")
        far.attach(client, "10.2.0.9/24")
        relay.run("sh", "-c", "mount -o remount,rw /proc/sys 2>/dev/null; echo 1 >/proc/sys/net/ipv4/ip_forward")
        admin.host.run("ip", "route", "add", "10.2.0.0/24", "via", "10.1.0.7")
        with served(admin, relay, "dhcp-relay=10.2.0.1,10.1.0.2", awaits="DHCP relay from"):
            [unknown] = offers(client, STRANGE, IPXE, most=1)
            assert unknown["address"] in {f"10.2.0.{number}" for number in range(110, 120)}, "the part of this server"
            assert (unknown["router"], unknown["file"]) == ("10.2.0.1", f"{SERVER}/boot/default.ipxe")
            [own] = offers(client, MAC1, IPXE, most=1)
            assert own["address"] == "10.2.0.21"
            assert (own["router"], own["file"]) == ("10.2.0.1", f"{SERVER}/boot/52-54-00-00-00-01.ipxe")


#: Asks for an address by DHCPv6, and prints the one that is advertised; an empty line without one.
SOLICIT: Final = """\
import socket, struct, sys, time
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 546))
index = socket.if_nametoindex("eth0")
duid = bytes([0, 3, 0, 1]) + bytes.fromhex(sys.argv[1].replace(":", ""))
option = lambda code, data: struct.pack("!HH", code, len(data)) + data
asked = bytes([1, 0, 0, 7]) + option(1, duid) + option(3, bytes(12)) + option(6, bytes([0, 23])) + option(8, bytes(2))
end, found = time.monotonic() + 20, ""
while not found and time.monotonic() < end:
    try:
        s.sendto(asked, ("ff02::1:2", 547, 0, index))
        s.settimeout(1.0)
        data = s.recv(2048)
    except OSError:
        continue
    at = data.find(bytes([0, 5, 0, 24]))
    if data[0] == 2 and at > 0:
        found = socket.inet_ntop(socket.AF_INET6, data[at + 4 : at + 20])
print(found)
"""


@pytest.mark.long
def test_a_node_gets_its_fixed_address_of_ipv6_and_another_machine_one_of_the_dynamic_range(
    admin: AdminNode, tmp_path: Path
) -> None:
    ranges = {**NETWORK.ranges, "dhcp6": "fd00:1::1000-fd00:1::1fff"}
    admin.world.put(Stored(replace(NETWORK, subnet6="fd00:1::/64", ranges=ranges), 1), "admin")
    admin.world.put_node(N1, Node(macs=(MAC1,), networks={"admin": ("10.1.0.21", "fd00:1::21")}, bootenv="local"), 1)
    admin.host.run("ip", "address", "add", "fd00:1::2/64", "dev", "eth0", "nodad")
    assert admin.publish() == 0, admin.output
    for mac, wanted in ((MAC1, {"fd00:1::21"}), (STRANGE, {f"fd00:1::1{number:x}" for number in range(0x400, 0x800)})):
        with Namespace(tmp_path, f"client-{mac[-2:]}") as client:
            admin.network.attach(client, "10.1.0.9/24")
            client.run("ip", "link", "set", "eth0", "down")
            client.run("ip", "link", "set", "eth0", "address", mac)
            client.run("ip", "link", "set", "eth0", "up")
            assert client.run("python3", "-c", SOLICIT, mac).strip() in wanted


@pytest.mark.long
@pytest.mark.parametrize(
    ("hardware", "seconds"),
    [
        (VirtualHardware(macs=(MAC1,), memory_mb=96), 150.0),
        (VirtualHardware(macs=(MAC1,), memory_mb=256, firmware=Firmware.UEFI, ipxe_card=False), 400.0),
    ],
    ids=["bios", "uefi"],
)
def test_a_machine_boots_its_script_beside_an_existing_server(
    tmp_path: Path, hardware: VirtualHardware, seconds: float
) -> None:
    with machines_turn(), admin_node(tmp_path) as admin, Namespace(tmp_path, "existing") as existing:
        admin.network.attach(existing, "10.1.0.1/24")
        admin.world.put(Stored(Network(subnet="10.1.0.0/24", proxy=True), 1), "admin")
        admin.world.put_node(N1, Node(macs=(MAC1,), bootenv="rescue"), 1)
        assert admin.publish() == 0, admin.output
        with (
            served(admin, existing, "dhcp-range=10.1.0.150,10.1.0.160"),
            VirtualMachine(admin.network, "n1", hardware) as machine,
        ):
            machine.on()
            log = f"{TOP}/log/access.log"
            wanted = 'GET /boot/52-54-00-00-00-01.ipxe HTTP/1.1" 200'
            machine.await_that(lambda: wanted in admin.host.run("cat", log), seconds, "request for its script")
            assert admin.host.run("cat", log).startswith("10.1.0.15"), "an address of the existing server"


@pytest.mark.long
def test_the_second_initrd_has_the_material_of_the_site_and_nothing_else(admin: AdminNode) -> None:
    values = {
        "provisioner/site/ca.pem": "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----",
        "provisioner/site/join-token": "ocb_join_token",
        "provisioner/site/api": ["https://10.1.0.2:8443", "https://10.1.0.3:8443"],
        "provisioner/site/ntp": ["10.1.0.1"],
        "provisioner/site/authorized_keys": ["ssh-ed25519 AAAA annealer"],
    }
    assert admin.run("provisioner-server", values)[0] == 0, admin.output
    made = admin.host.run("sha256sum", f"{TOP}/http/site.cpio")
    opened = f"mkdir {TOP}/opened && cd {TOP}/opened && cpio -id --quiet <../http/site.cpio"
    admin.host.run("sh", "-c", opened)
    listed = admin.host.run("sh", "-c", f"cd {TOP}/opened && find etc -type f -printf '%p %m %U:%G\\n' | sort")
    modes = {"ca.pem": 644, "join-token": 600, "api": 644, "ntp": 644, "authorized_keys": 644}
    assert listed.splitlines() == sorted(f"etc/ocb/{name} {mode} 0:0" for name, mode in modes.items())
    for place, value in values.items():
        wanted = value if isinstance(value, str) else "\n".join(value)
        assert admin.read(f"opened/etc/ocb/{place.rpartition('/')[2]}") == f"{wanted}\n"
    assert admin.run("provisioner-server", values)[0] == 0, admin.output
    assert admin.host.run("sha256sum", f"{TOP}/http/site.cpio") == made, "the same material makes the same file"


SYSTEMCTL: Final = """\
#!/bin/sh
# Starts and restarts as systemd does with Type=forking: by ExecStart of the unit.
echo "$*" >>{log}
[ "$1" = restart ] || exit 0
unit=/etc/systemd/system/$2
pid=$(cat "$(sed -n 's/^PIDFile=//p' "$unit")" 2>/dev/null) && kill "$pid"
while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
exec $(sed -n 's/^ExecStart=//p' "$unit")
"""


@pytest.mark.long
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_units_of_an_admin_node_are_accepted_by_systemd_and_start_the_servers(tmp_path: Path) -> None:
    with VirtualNetwork(tmp_path) as network, Namespace(tmp_path, "admin") as host:
        network.attach(host, "10.1.0.2/24")
        for place in ("/var/lib", "/srv", "/etc/systemd/system", "/run/systemd"):
            host.run("sh", "-c", f"mkdir -p {place} && mount -t tmpfs tmpfs {place}")
        host.run("mkdir", "/run/systemd/system")
        made = AdminNode(network, host, tmp_path)
        command = tmp_path / "bin" / "systemctl"
        command.write_text(SYSTEMCTL.format(log=tmp_path / "systemctl.log"))
        command.chmod(0o755)
        made.world.put_node(N1, Node(macs=(MAC1,), networks={"admin": ("10.1.0.21",)}, bootenv="rescue"), 1)
        assert made.server() == 0, made.output
        assert made.publish() == 0, made.output
        units = [f"/etc/systemd/system/nodepool-ocb-{name}.service" for name in ("dnsmasq", "nginx")]
        assert host.run("systemd-analyze", "verify", "--man=no", *units) == ""
        asked = (tmp_path / "systemctl.log").read_text().splitlines()
        assert asked[:2] == [
            "daemon-reload",
            "enable --quiet nodepool-ocb-dnsmasq.service nodepool-ocb-nginx.service",
        ]
        with Namespace(tmp_path, "client") as client:
            network.attach(client, "10.1.0.9/24")
            [own] = offers(client, MAC1, IPXE, most=1)
            assert client.run("curl", "-s", "-m", "10", own["file"]).startswith("#!ipxe")
        done = made.run("provisioner-server")[0]
        assert (done, (tmp_path / "systemctl.log").read_text().splitlines()[-1]) == (0, asked[1]), (
            "nothing is restarted"
        )
