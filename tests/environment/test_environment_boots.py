"""The environment that mmdebstrap makes, on machines of QEMU: discovery, installation, and the boot from the disk."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.images import nodepool
from nodepool_ocb.images.nodepool import Diskimage
from nodepool_ocb.testing.mirrors import mirror
from nodepool_ocb.testing.virtual.machine import Device, Firmware, VirtualDisk, VirtualHardware, VirtualMachine
from nodepool_ocb.testing.virtual.namespaces import Namespace
from nodepool_ocb.testing.virtual.network import VirtualNetwork, machines_turn, why_not
from nodepool_ocb_builder import backends
from nodepool_ocb_builder.backends import BuildTask
from tests.environment.provisioner import EPOCH, NODE, Provisioner, joined, site_archive

SHIPPED = Path(__file__).parents[2] / "etc" / "provisioner" / "nodepool.yaml"
MAC = "52:54:00:00:00:01"
HOST, ADMIN, RANGE = "10.249.8.1", "10.249.8.2", "10.249.8.50,10.249.8.99"
BUILD_SECONDS, BOOT_SECONDS, INSTALL_SECONDS = 2400.0, 900.0, 3000.0
GRUB = ("GRUB_TIMEOUT=0", "GRUB_TERMINAL=console", 'GRUB_CMDLINE_LINUX="console=ttyS0 panic=30"')
#: A small system to install; the kernel is that of virtual machines.
SYSTEM = Diskimage(
    name="metal",
    backend="mmdebstrap",
    release="bookworm",
    formats=("tar",),
    elements=(),
    env_vars={},
    options={
        "include": [
            "linux-image-cloud-amd64,initramfs-tools,zstd,grub2-common,grub-pc-bin,grub-efi-amd64-bin",
            "systemd-sysv,udev,openssh-server,iproute2",
        ],
        "dpkgopts": [f"path-exclude=/usr/share/{each}/*" for each in ("man", "doc", "locale")],
        "customize-hooks": [f"printf '%s\\n' {shlex.join(GRUB)} >\"$1/etc/default/grub\""],
    },
)

pytestmark = [pytest.mark.long, pytest.mark.skipif(why_not() is not None, reason=why_not() or "")]


def build(image: Diskimage, folder: Path) -> Path:
    """The file of the image's only format, by the real mmdebstrap."""
    address = mirror("debian")
    if address is None or shutil.which("mmdebstrap") is None:
        pytest.skip("a mirror of Debian and mmdebstrap are needed")
    (form,) = image.formats
    work = folder / f"{image.name}.build"
    (work / "tmp").mkdir(parents=True)
    output = folder / f"{image.name}.{form}"
    task = BuildTask(
        image=replace(image, options={**image.options, "mirror": address}),
        build="0000000001",
        work=work,
        outputs={form: output},
        manifest=folder / f"{image.name}.d",
    )
    command = backends.installed()[0]["mmdebstrap"].command(task)
    env = {"PATH": backends.search_path(), "TMPDIR": str(work / "tmp"), "LANG": "C.UTF-8", **command.env}
    done = subprocess.run(
        command.argv, cwd=work, env=env, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shutil.rmtree(work)
    return output


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with vmlinuz, initrd and root.squashfs."""
    folder = tmp_path_factory.mktemp("environment")
    images = nodepool.load(SHIPPED, environ={}).diskimages
    made = build(next(each for each in images if each.name == "environment-virtual"), folder)
    with tarfile.open(made) as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(SYSTEM, tmp_path_factory.mktemp("system"))


class Scene:
    """A network with DHCP, a provisioner on the test's host, and the key of an annealer."""

    def __init__(self, folder: Path, network: VirtualNetwork, site: Provisioner, environment: Path) -> None:
        self.folder, self.network, self.site, self._environment = folder, network, site, environment
        self.key = folder / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True)
        shutil.copy(environment / "root.squashfs", site.files)
        self.authorized = self.key.with_suffix(".pub").read_text().strip()
        self._initrd = joined(folder, environment / "initrd", site_archive(folder, site, self.authorized + "\n"))

    def hardware(self, mode: str, **keys: Any) -> VirtualHardware:
        """A machine that boots the environment; its next boots are chosen by the test."""
        digest = hashlib.sha256((self._environment / "root.squashfs").read_bytes()).hexdigest()
        root = {"ocb.root": f"{self.site.http}/root.squashfs", "ocb.root_sha256": digest}
        return VirtualHardware(
            macs=(MAC,),
            memory_mb=1024,
            order=(),
            kernel=self._environment / "vmlinuz",
            initrd=self._initrd,
            arguments=f"quiet console=ttyS0 panic=30 {self.site.arguments(mode, MAC, **root)}",
            **{"more": ("-no-reboot",), **keys},
        )

    def asks(self, host_key: str, command: str) -> str:
        """The output of a command on the machine, if its host key is this one; empty otherwise."""
        known = self.folder / "known_hosts"
        leases = (self.folder / "leases").read_text().splitlines()
        known.write_text("".join(f"{line.split()[2]} {host_key}\n" for line in leases))
        for line in leases:
            login = ["ssh", "-i", str(self.key), "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
            login += ["-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={known}"]
            done = subprocess.run(
                [*login, f"root@{line.split()[2]}", command], capture_output=True, text=True, timeout=60, check=False
            )
            if done.returncode == 0:
                return done.stdout
        return ""


@pytest.fixture
def scene(tmp_path: Path, environment: Path) -> Iterator[Scene]:
    with machines_turn(), VirtualNetwork(tmp_path) as network, Namespace(tmp_path, "admin") as admin:
        network.attach(admin, f"{ADMIN}/24")
        network.attach_test(f"{HOST}/24")
        leases = f"--dhcp-leasefile={tmp_path / 'leases'}"
        (tmp_path / "leases").touch()
        server = admin.start(
            *("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root"),
            *(f"--dhcp-range={RANGE}", leases),
            deadline_seconds=2 * INSTALL_SECONDS,
        )
        with server, Provisioner(tmp_path / "site", HOST) as site:
            yield Scene(tmp_path, network, site, environment)


@pytest.mark.parametrize("firmware", [Firmware.BIOS, Firmware.UEFI])
def test_a_machine_is_installed_and_boots_from_its_disk(scene: Scene, system: Path, firmware: Firmware) -> None:
    """With UEFI also: the clock begins in 2010, and a connection ends in the middle."""
    site = scene.site
    shutil.copy(system, site.files / "disk.tar")
    network = {"ethernets": {"all": {"match": {"macaddress": MAC}, "dhcp4": True}}}
    site.offer(site.files / "disk.tar", authorized_keys=[scene.authorized], network=network, disk={"serial": "one"})
    disks = (VirtualDisk(size_mb=3000, serial="one"), VirtualDisk(size_mb=3000, serial="two"))
    clock = "2010-01-01T00:00:00" if firmware is Firmware.UEFI else ""
    hardware = scene.hardware("install", firmware=firmware, disks=disks, clock=clock)
    if firmware is Firmware.UEFI:
        site.cuts = [10**9, 1000]
    with VirtualMachine(scene.network, "m1", hardware) as machine:
        machine.on(INSTALL_SECONDS).await_console("restarting from the disk", INSTALL_SECONDS)
        print([line for line in machine.said.splitlines() if line.startswith("ocb: ")])
        assert [report["checksum"] for report in site.reports("verified")] == [site.order["checksum"]]
        if clock:
            assert "clock: it was wrong by" in machine.said
        machine.off()
        machine.hardware = replace(hardware, kernel=None, initrd=None, clock="", more=())
        machine.order = (Device.DISK,)
        machine.on(BOOT_SECONDS)
        (identity,) = site.identities()
        machine.await_that(
            lambda: scene.asks(identity["host_key"], "hostname") == f"{NODE.partition('.')[0]}\n",
            BOOT_SECONDS,
            "login with the pinned host key",
        )
        answer = scene.asks(
            identity["host_key"], "cat /var/lib/nodepool-ocb/epoch.0; lsblk -no FSTYPE /dev/sdb; ls /sys/firmware"
        )
        assert answer.splitlines()[0] == f"{EPOCH + 1} - {EPOCH + 1}"
        assert ("efi" in answer.split()) == (firmware is Firmware.UEFI)
        assert "ext4" not in answer


def test_a_machine_is_discovered_and_lets_the_annealer_in(scene: Scene) -> None:
    site = scene.site
    hardware = scene.hardware("discovery", disks=(VirtualDisk(size_mb=100, serial="one", rotational=True),))
    with VirtualMachine(scene.network, "m1", hardware) as machine:
        machine.on(BOOT_SECONDS).await_console("waiting", BOOT_SECONDS)
        print([line for line in machine.said.splitlines() if line.startswith("ocb: ")])
        ((_, body), *_) = site.said
        (disk,) = body["inventory"]["disks"]
        assert (disk["serial"], disk["size"], disk["rotational"]) == ("one", 100 << 20, True)
        assert [nic["mac"] for nic in body["inventory"]["nics"]] == body["macs"] == [MAC]
        site.adopted_as = NODE
        machine.await_console(f"adopted as {NODE}", BOOT_SECONDS)
        assert scene.asks(body["host_keys"][0], "cat /etc/nodepool-ocb/token") == "ocb_own_secret\n"


def test_a_root_with_another_sum_does_not_boot(scene: Scene) -> None:
    scene.site.spoils = True
    with VirtualMachine(scene.network, "m1", scene.hardware("rescue")) as machine:
        machine.on(BOOT_SECONDS).await_console("fetching it again", BOOT_SECONDS)
        scene.site.spoils = False
        machine.await_console("rescue: sshd waits for people", BOOT_SECONDS)
