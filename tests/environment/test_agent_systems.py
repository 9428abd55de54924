"""The installed system: its identity, its network, and the epoch that fences stale annealers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environment.agents import HOST_KEY, LIBRARY, SHELLS, FileMachine
from tests.environment.provisioner import EPOCH, NODE, OWN_TOKEN, Provisioner

NETWORK = {
    "version": 2,
    "ethernets": {"a": {"match": {"macaddress": "52:54:00:00:00:01"}}, "eth1": {}},
    "bonds": {"bond0": {"interfaces": ["a", "eth1"], "parameters": {"mode": "802.3ad"}}},
    "vlans": {"vlan7": {"id": 7, "link": "bond0", "addresses": ["10.7.0.5/24"], "gateway4": "10.7.0.1"}},
    "bridges": {
        "br0": {"interfaces": ["bond0"], "dhcp4": True, "nameservers": {"addresses": ["10.1.0.1"]}, "mtu": 9000}
    },
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Provisioner]:
    with Provisioner(tmp_path / "site") as site:
        (site.files / "image").write_bytes(b"image")
        site.offer(site.files / "image", network=NETWORK)
        yield site


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_the_installed_system_has_its_identity(site: Provisioner, tmp_path: Path, shell: tuple[str, ...]) -> None:
    machine = FileMachine(tmp_path / "machine", shell)
    machine.boots(site, "install")
    machine.has_order(site)
    target = machine.target
    (target / "etc/ssh").mkdir(parents=True)
    (target / "etc/ssh/ssh_host_rsa_key").write_text("the image's")
    (target / "var/lib/nodepool-ocb").mkdir(parents=True)
    (target / "var/lib/nodepool-ocb/current").write_text("the image's")
    done = machine.does("settle_system")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {
        str(file.relative_to(target)): (file.read_text(), file.stat().st_mode & 0o777)
        for file in target.rglob("*")
        if file.is_file()
    }
    assert len(found.pop("etc/machine-id")[0]) == 33
    assert found.pop("etc/hosts")[0].splitlines()[1] == f"127.0.1.1 {NODE} n1"
    assert found == {
        "etc/ssh/ssh_host_ed25519_key": ("private\n", 0o600),
        "etc/ssh/ssh_host_ed25519_key.pub": (f"{HOST_KEY} comment\n", 0o644),
        "root/.ssh/authorized_keys": ("ssh-ed25519 AAAAannealer\nssh-ed25519 AAAAkey annealer\n", 0o600),
        "etc/hostname": ("n1\n", 0o644),
        "etc/nodepool-ocb/token": (OWN_TOKEN + "\n", 0o600),
        "etc/nodepool-ocb/ca.pem": (site.certificate.read_text(), 0o644),
        "etc/nodepool-ocb/api": (site.api + "\n", 0o644),
        "var/lib/nodepool-ocb/epoch.0": (f"{EPOCH} - {EPOCH}\n", 0o600),
        "var/lib/cloud/seed/nocloud/meta-data": (f"instance-id: {NODE}\n", 0o600),
        "var/lib/cloud/seed/nocloud/user-data": ("#cloud-config\n", 0o600),
    }


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_one_jq_reads_an_order(site: Provisioner, tmp_path: Path, shell: tuple[str, ...]) -> None:
    """A value stands for no other key, and no word of it is run."""
    odd = f"1'; touch {tmp_path}/run; '\nordered_layout_lvm=true $(touch {tmp_path}/run)"
    site.order |= {"epoch": 7, "hostname": None, "odd": odd, "layout": {"lvm": False, "boot": "a=b"}}
    site.order |= {"wipe": [{"serial": "a b"}, {}], "disk": {"path": "/dev/sda"}, "image": ["x", "y"], "network": {}}
    machine = FileMachine(tmp_path / "machine", shell)
    machine.has_order(site)
    started = machine.counts("jq")
    keys = "epoch hostname layout.lvm layout.boot absent wipe disk image network nocloud.meta-data authorized_keys odd"
    done = machine.does(f'for each in {keys}; do echo "$each $(ordered $each)"; done')
    assert done.stdout.splitlines() == [
        "epoch 7",
        "hostname ",
        "layout.lvm false",
        "layout.boot a=b",
        "absent ",
        'wipe {"serial":"a b"}',
        "{}",
        'disk {"path":"/dev/sda"}',
        "image x",
        "y",
        "network ",
        f"nocloud.meta-data instance-id: {NODE}",
        "authorized_keys ssh-ed25519 AAAAkey annealer",
        *f"odd {odd}".splitlines(),
    ], done
    assert started() == 1
    assert not (tmp_path / "run").exists()


def test_an_answer_without_an_order_is_refused(tmp_path: Path) -> None:
    machine = FileMachine(tmp_path / "machine")
    done = machine.does(
        'for each in \'{"answer": {"token": "t"}}\' "" no; do echo "$each" | read_order || echo refused; done'
    )
    assert done.stdout.splitlines() == ["refused"] * 3


def test_bonds_vlans_and_bridges_become_files_of_networkd(site: Provisioner, tmp_path: Path) -> None:
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    machine.has_order(site)
    networkd = machine.target / "lib/systemd/systemd-networkd"
    networkd.parent.mkdir(parents=True)
    networkd.touch(0o755)
    done = machine.does("settle_network")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = machine.target / "etc/systemd/network"
    files = {file.name: file.read_text() for file in folder.iterdir()}
    assert sorted(files) == [
        "10-bond0.netdev", "10-br0.netdev", "10-vlan7.netdev", "20-a.network", "20-eth1.network",
        "30-bond0.network", "40-br0.network", "50-vlan7.network",
    ]  # fmt: skip
    assert files["20-a.network"] == "[Match]\nPermanentMACAddress=52:54:00:00:00:01\n\n[Network]\nBond=bond0\n"
    assert files["30-bond0.network"] == "[Match]\nName=bond0\n\n[Network]\nVLAN=vlan7\nBridge=br0\n"
    assert files["50-vlan7.network"].endswith("[Network]\nAddress=10.7.0.5/24\nGateway=10.7.0.1\n")
    assert files["40-br0.network"].endswith("[Network]\nDHCP=ipv4\nDNS=10.1.0.1\n\n[Link]\nMTUBytes=9000\n")
    assert "Mode=802.3ad\n" in files["10-bond0.netdev"]
    assert "Id=7\n" in files["10-vlan7.netdev"]
    assert (machine.target / "etc/resolv.conf").read_text() == "nameserver 10.1.0.1\n"


def test_an_unknown_key_of_a_network_fails_the_installation(site: Provisioner, tmp_path: Path) -> None:
    site.order["network"] = {"ethernets": {"eth0": {"adresses": ["10.1.0.5/24"]}}}
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    machine.has_order(site)
    (machine.target / "lib/systemd").mkdir(parents=True)
    (machine.target / "lib/systemd/systemd-networkd").touch(0o755)
    machine.does("settle_network")
    assert "ethernet eth0: unknown key adresses" in site.reports("failed")[0]["reason"]


def test_the_initrd_fetches_the_root_again_until_its_sum_is_right(site: Provisioner, tmp_path: Path) -> None:
    content = os.urandom(100_000)
    (site.files / "root.squashfs").write_bytes(content)
    sum_of = subprocess.run(["sha256sum"], input=content, capture_output=True, check=True).stdout.decode().split()[0]
    site.cuts = [30_000]
    (tmp_path / "root").write_bytes(b"other bytes that lie here")
    script = f'. {LIBRARY.parents[2]}/etc/initramfs-tools/scripts/ocb; ocb_say() {{ echo "$*"; }}; sleep() {{ :; }}; '
    uptime = "ocb_uptime() { echo 1; }; "
    done = subprocess.run(
        ["busybox", "sh", "-c", f"{script}{uptime}ocb_fetch {site.http}/root.squashfs {sum_of} {tmp_path}/root"],
        capture_output=True, text=True, timeout=60.0, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "root").read_bytes() == content
    assert "was interrupted at" in done.stdout
    assert f"instead of {sum_of}; fetching it again" in done.stdout


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_the_menu_of_an_image_without_grub_has_its_kernel_arguments(tmp_path: Path, shell: tuple[str, ...]) -> None:
    machine = FileMachine(tmp_path / "machine", shell)
    for name in ("boot/vmlinuz-6.1.0-9", "boot/vmlinuz-6.1.0-10", "boot/initrd.img-6.1.0-10", "etc/default/grub"):
        file = machine.target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('GRUB_CMDLINE_LINUX="console=ttyS0 panic=10"\n' if name.endswith("grub") else "")
    done = machine.does("uuid_of() { echo 12-34; }; root_device=/dev/none; make_menu")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.strip() for line in (machine.target / "boot/grub/grub.cfg").read_text().splitlines()]
    assert "linux /boot/vmlinuz-6.1.0-10 root=UUID=12-34 ro console=ttyS0 panic=10" in lines


@pytest.mark.parametrize("own", [True, False], ids=["the image's", "the environment's"])
def test_grub_of_an_image_sees_the_devices_and_a_foreign_one_needs_no_mount(tmp_path: Path, own: bool) -> None:
    machine = FileMachine(tmp_path)
    if own:
        machine.target.joinpath("usr/lib/grub/i386-pc").mkdir(parents=True)
        machine.target.joinpath("usr/sbin").mkdir()
        machine.target.joinpath("usr/sbin/grub-install").touch(0o755)
    machine.program("mountpoint", "exit 1")
    for name in ("mount", "chroot", "grub-install"):
        machine.program(name, f'echo {name} "$@" >>{tmp_path}/did')
    done = machine.does("grub_bios /dev/sda || echo nowhere")
    found = tmp_path.joinpath("did").read_text().splitlines() if "nowhere" not in done.stdout else []
    if own:
        binds = [f"mount --bind /{each} {machine.target}/{each}" for each in ("dev", "proc", "sys", "run")]
        assert found == [*binds, f"chroot {machine.target} grub-install --target=i386-pc /dev/sda"], done
    else:
        assert not any(line.startswith("mount") for line in found)


def test_all_mounts_of_the_new_root_end_before_the_restart(tmp_path: Path) -> None:
    machine = FileMachine(tmp_path)
    for name in ("umount", "sync"):
        machine.program(name, f'echo {name} "$@" >>{tmp_path}/did')
    assert machine.does("root_device=/dev/sda3; release_target").returncode == 0
    assert tmp_path.joinpath("did").read_text().splitlines() == [
        "sync",
        f"umount --recursive {machine.target}",
        "sync",
    ]
    machine.program("umount", "echo busy; exit 1")
    done = machine.does("report_failure() { :; }; root_device=/dev/sda3; release_target")
    assert (done.returncode, "umount failed: busy" in done.stdout) == (1, True)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_a_file_that_cannot_be_written_fails_the_installation(
    site: Provisioner, tmp_path: Path, shell: tuple[str, ...]
) -> None:
    machine = FileMachine(tmp_path / "machine", shell)
    machine.boots(site, "install")
    machine.has_order(site)
    (machine.target / "etc").write_text("a file in the place of a folder")
    done = machine.does("put etc/hostname 644 <$OCB_PROC/uptime; echo goes on")
    assert (done.returncode, "goes on" in done.stdout) == (1, False)
    assert site.reports("failed")[0]["reason"] == "writing etc/hostname failed"
