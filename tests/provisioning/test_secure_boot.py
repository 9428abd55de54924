"""Boot under Secure Boot: shim, signed GRUB and Debian's signed kernel; another kernel is refused by the name of its image."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.boot import Bootenv, BootenvKind
from nodepool_ocb.model.records import Node
from nodepool_ocb.provisioning import boot, bootenvs, publications
from nodepool_ocb.provisioning.servers import serverfiles
from nodepool_ocb.testing.virtual.machine import Firmware, VirtualHardware, VirtualMachine
from nodepool_ocb.testing.virtual.network import machines_turn, why_not
from tests.provisioning.adminnode import FQDN, SERVER, TOP, AdminNode, admin_node

MISSING: Final = why_not("dnsmasq", "nginx", "cpio") or (
    None if Path("/usr/lib/ipxe/undionly.kpxe").exists() else "no iPXE here"
)
N1, MAC1 = "n1.example.com", "52:54:00:00:00:01"
SECURE: Final = Bootenv(kind=BootenvKind.RESCUE, image="discovery", arguments="console=ttyS0 panic=30", secure=True)
CONFIG1: Final = "tftp/boot/node-52-54-00-00-00-01.cfg"
PACKAGES: Final = ("shim-signed", "grub-efi-amd64-signed")
KERNEL: Final = "linux-image-cloud-amd64"


def world(bootenv: Bootenv = SECURE, **fields: str) -> World:
    made = World()
    made.put(Stored(bootenv, 0), "safe")
    made.put_node(N1, Node(macs=(MAC1,), networks={"admin": ("10.1.0.21",)}, bootenv="safe", **fields), 1)
    return made


def test_a_node_has_a_configuration_of_grub_beside_its_script_of_ipxe() -> None:
    files = boot.wanted(world(), N1).files
    assert files[f"hosts.d/{N1}"] == f"{MAC1},set:own-{N1},set:own,set:secure,10.1.0.21,{N1}\n"
    assert f"dhcp-option-force=tag:efi,tag:own-{N1},224,node-52-54-00-00-00-01\n" in files[f"boots.d/{N1}.conf"]
    config = files[CONFIG1]
    assert "if linux $base/$build/vmlinuz 'ocb.mode=rescue' " in config
    assert '"ocb.root=${image}/${build}/root.squashfs" "ocb.root_sha256=${root_sha256}"' in config
    assert "'console=ttyS0' 'panic=30'; then" in config
    assert f"ocb: {N1}: boot environment safe was not started: the kernel of image discovery" in config
    assert "http/boot/52-54-00-00-00-01.ipxe" in files, "for firmware of BIOS"
    plain = boot.wanted(world(Bootenv(kind=BootenvKind.RESCUE, image="discovery")), N1).files
    assert not [path for path in plain if path.startswith("tftp/")]


def test_unknown_machines_boot_by_shim_if_discovery_is_secure() -> None:
    made, name = world(), f"{boot.DHCP}@{FQDN}"
    assert "tftp/boot/default.cfg" not in publications.wanted(made, name, publications.OWN).files
    assert "dhcp-boot=tag:efi,tag:!ipxe,tag:!local,tag:!own,ipxe.efi\n" in serverfiles.dhcp(made, FQDN)
    made.put(Stored(Bootenv(kind=BootenvKind.DISCOVERY, image="discovery", secure=True), 0), "discovery")
    config = publications.wanted(made, name, publications.OWN).files["tftp/boot/default.cfg"]
    assert '"ocb.mac=${net_default_mac}"' in config
    assert "dhcp-boot=tag:efi,tag:!ipxe,tag:!local,tag:!own,shimx64.efi\n" in serverfiles.dhcp(made, FQDN)


@pytest.mark.parametrize(
    ("bootenv", "fault"),
    [
        (Bootenv(kind=BootenvKind.LOCAL, secure=True), "no secure=true"),
        (Bootenv(kind=BootenvKind.RESCUE, image="x", script="#!ipxe\n", secure=True), "Secure Boot refuses"),
    ],
)
def test_a_secure_boot_environment_has_a_kernel_and_no_script_of_ipxe(bootenv: Bootenv, fault: str) -> None:
    assert [each for each in bootenvs.faults("x", bootenv) if fault in each]


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of Debian's signed packages."""
    folder = tmp_path_factory.mktemp("signed")
    found = subprocess.run(["apt-cache", "depends", KERNEL], capture_output=True, text=True, check=False).stdout
    kernels = [line.split()[-1] for line in found.splitlines() if "Depends: linux-image-" in line]
    words = ["apt-get", "download", "-q", *PACKAGES, *kernels]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=500.0, check=False)
    if done.returncode or not kernels:
        pytest.skip(f"Debian's signed packages cannot be had: {done.stderr[-200:]}")
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, folder / "root"], check=True, timeout=120.0)
    return folder / "root"


@pytest.fixture
def admin(tmp_path: Path, signed: Path) -> Iterator[AdminNode]:
    """An admin node with these packages; the machines's image has the signed kernel."""
    with machines_turn(), admin_node(tmp_path) as made:
        made.host.run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={signed}/usr/lib:/usr/lib", "/usr/lib")
        assert made.run("provisioner-server", {"provisioner/secure-boot": True})[0] == 0, made.output
        made.world.put(Stored(SECURE, 0), "safe")
        made.world.put_node(N1, Node(macs=(MAC1,), networks={"admin": ("10.1.0.21",)}, bootenv="safe"), 1)
        assert made.publish() == 0, made.output
        [kernel] = (signed / "boot").glob("vmlinuz-*")
        shutil.copy(kernel, tmp_path / "vmlinuz")
        build = f"{TOP}/http/images/discovery/0000000001"
        made.host.run("mkdir", "-p", build)
        made.host.run("cp", str(tmp_path / "vmlinuz"), f"{build}/vmlinuz")
        made.host.run("sh", "-c", f"printf 'set build=0000000001\\nset root_sha256=00\\n' >{build}/../newest.cfg")
        made.host.run("sh", "-c", f"echo | cpio -o -H newc --quiet >{build}/initrd </dev/null")
        yield made


HARDWARE: Final = VirtualHardware(macs=(MAC1,), memory_mb=512, firmware=Firmware.SECURE, ipxe_card=False)


@pytest.mark.long
@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
def test_debians_signed_kernel_boots_under_secure_boot_and_another_one_is_refused_by_name(
    admin: AdminNode, tmp_path: Path
) -> None:
    with VirtualMachine(admin.network, "n1", HARDWARE) as machine:
        machine.on()
        machine.await_that(
            lambda: "locked down from EFI Secure Boot" in machine.said, 500.0, "kernel under Secure Boot"
        )
        machine.off()
        assert f"ocb: {N1} boots safe by GRUB, with image discovery" in machine.said
        assert f"ocb.node={N1}" in machine.said
        assert f"ocb.server={SERVER}" in machine.said
        assert f"ocb.root={SERVER}/images/discovery/0000000001/root.squashfs" in machine.said
    other = bytearray((tmp_path / "vmlinuz").read_bytes())
    other[len(other) // 2] ^= 1
    (tmp_path / "vmlinuz").write_bytes(other)
    admin.host.run("cp", str(tmp_path / "vmlinuz"), f"{TOP}/http/images/discovery/0000000001/vmlinuz")
    with VirtualMachine(admin.network, "n2", HARDWARE) as machine:
        machine.on()
        refused = f"ocb: {N1}: boot environment safe was not started: the kernel of image discovery"
        machine.await_that(lambda: refused in " ".join(machine.said.split()), 500.0, "refusal by name")  # GRUB wraps it
        assert "bad shim signature" in machine.said
        assert "Linux version" not in machine.said
