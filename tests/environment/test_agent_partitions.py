"""An installation by the agent on a loop device: partitions, file systems, image, fstab. The boot loader is left out."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environment.agents import FileMachine
from tests.environment.provisioner import EPOCH, Provisioner

DISK_BYTES = 700 << 20


def output(*command: str | Path) -> str:
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=60).stdout


def begin_of(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(1 << 20)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A loop device with an old file system, on a sparse file."""
    if os.geteuid() != 0:
        pytest.skip("a loop device needs root")
    file = tmp_path / "disk"
    with file.open("wb") as made:
        made.truncate(DISK_BYTES)
    output("mkfs.ext4", "-q", "-F", file)
    try:
        device = output("losetup", "--find", "--show", "--partscan", file).strip()
    except subprocess.CalledProcessError as refused:
        pytest.skip(f"this host has no loop device to give: {refused.stderr.strip()}")
    try:
        yield device
    finally:
        subprocess.run(["umount", "-q", tmp_path / "machine/target"], check=False)
        output("losetup", "--detach", device)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Provisioner]:
    with Provisioner(tmp_path / "site") as site:
        yield site


@pytest.mark.long
def test_a_tar_becomes_a_system_on_its_disk_and_again(site: Provisioner, tmp_path: Path, disk: str) -> None:
    (tmp_path / "content").write_text("content\n")
    with tarfile.open(site.files / "disk.tar", "w") as tar:
        tar.add(tmp_path / "content", arcname="./etc/content")
    site.offer(site.files / "disk.tar", disk={"serial": "one"}, layout={"swap_mib": 32})
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    machine.has_order(site)
    machine.disks({"path": disk, "size": DISK_BYTES, "serial": "one"}, {"path": "/dev/none", "size": DISK_BYTES})
    for _ in range(2):  # the second one meets the partitions of the first
        done = machine.does("install_boot_loader() { :; }; prepare; install_tar; release_target")
        assert done.returncode == 0, done.stdout + done.stderr
    table = output("sgdisk", "--print", disk)
    assert re.findall(r"^ +(\d) .* ([0-9A-F]{4}) *", table, re.MULTILINE) == [
        ("1", "EF02"), ("2", "EF00"), ("3", "8300"), ("4", "8200"),
    ]  # fmt: skip
    uuids = {n: output("blkid", "-p", "-o", "value", "-s", "UUID", f"{disk}p{n}").strip() for n in (2, 3, 4)}
    output("mount", f"{disk}p3", machine.target)
    assert (machine.target / "etc/content").read_text() == "content\n"
    assert not (machine.target / ".ocb-image").exists()
    assert (machine.target / "etc/fstab").read_text().splitlines() == [
        f"UUID={uuids[3]} / ext4 errors=remount-ro 0 1",
        f"UUID={uuids[2]} /boot/efi vfat umask=0077,nofail 0 1",
        f"UUID={uuids[4]} none swap sw 0 0",
    ]
    assert (machine.target / "var/lib/nodepool-ocb/epoch.0").read_text() == f"{EPOCH} - {EPOCH}\n"
    assert [step for step in ("fetched", "written", "failed") if site.reports(step)] == ["fetched", "written"]


def test_no_byte_is_written_before_all_checks_passed(site: Provisioner, tmp_path: Path, disk: str) -> None:
    (site.files / "image").write_bytes(b"image")
    site.offer(site.files / "image", wipe=[{"serial": "absent"}])
    before = begin_of(tmp_path / "disk")
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    machine.has_order(site)
    machine.disks({"path": disk, "size": DISK_BYTES, "serial": "one"})
    assert machine.does("prepare").returncode == 1
    assert 'no disk matches the hints {"serial":"absent"}' in site.reports("failed")[0]["reason"]
    assert begin_of(tmp_path / "disk") == before


@pytest.mark.parametrize("method", ["signatures", pytest.param("overwrite", marks=pytest.mark.long)])
def test_all_fixed_disks_lose_their_data_before_the_image_is_written(
    site: Provisioner, tmp_path: Path, disk: str, method: str
) -> None:
    (site.files / "image").write_bytes(b"image")
    site.offer(site.files / "image", wipe=[{}], wipe_method=method)
    output("mkfs.ext4", "-q", disk)
    output("dd", "if=/dev/urandom", f"of={disk}", "bs=4096", "count=4", "seek=1000", "conv=notrunc")
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    machine.has_order(site)
    machine.disks({"path": disk, "size": DISK_BYTES, "serial": "one"})
    done = machine.does("read_wipes; for each in $wipes; do wipe_disk $each $method || die $fault; done")
    assert done.returncode == 0, done.stdout + done.stderr
    assert output("wipefs", "--noheadings", disk) == ""
    with open(disk, "rb") as file:
        file.seek(1000 * 4096)
        assert (file.read(16384) == bytes(16384)) is (method == "overwrite")


def test_a_method_that_is_not_known_wipes_nothing(site: Provisioner, tmp_path: Path, disk: str) -> None:
    (site.files / "image").write_bytes(b"image")
    site.offer(site.files / "image", wipe=[{}], wipe_method="magic")
    output("mkfs.ext4", "-q", disk)
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    machine.has_order(site)
    machine.disks({"path": disk, "size": DISK_BYTES, "serial": "one"})
    assert machine.does("prepare").returncode == 1
    assert 'is "magic"' in site.reports("failed")[0]["reason"]
    assert output("blkid", "-p", "-o", "value", "-s", "TYPE", disk) == "ext4\n"


ERASES = "began=0; permitted() { :; }; switch_off() { echo OFF; exit 0; }; wipe_machine"


def test_a_decommissioned_machine_reports_each_disk_names_the_failed_one_and_stays_on(
    site: Provisioner, tmp_path: Path, disk: str
) -> None:
    output("mkfs.ext4", "-q", disk)
    site.order = {"action": "wipe", "wipe": [{}], "wipe_method": "signatures"}
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    machine.has_order(site)
    machine.disks({"path": "/dev/absent", "size": 4096}, {"path": disk, "size": DISK_BYTES, "serial": "one"})
    failed = machine.does(ERASES)
    assert (failed.returncode, "OFF" in failed.stdout) == (1, False)
    first, second = site.reports("wiped")
    assert first["disk"].startswith("/dev/absent (")
    assert "wipefs failed" in first["reason"]
    assert (f"{disk} (" in second["disk"], "serial one" in second["disk"], second.get("reason")) == (True, True, None)
    assert "not all disks were erased: /dev/absent (wipefs failed" in site.reports("failed")[0]["reason"]
    assert (output("wipefs", "--noheadings", disk), site.reports("erased")) == ("", [])
    machine.disks({"path": disk, "size": DISK_BYTES, "serial": "one"})
    assert "OFF" in machine.does(ERASES).stdout
    assert len(site.reports("erased")) == 1
