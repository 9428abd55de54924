"""The image on its way to the disk: lost connections, wrong bytes, and the comparison after the writing."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environment.agents import SHELLS, FileMachine
from tests.environment.provisioner import Provisioner

SMALL = "PIECE_BYTES=1048576; sleep() { :; }; "
RAW = 'fetch "$(ordered size)" "$(ordered checksum | cut -d: -f2)" raw_sink $(ordered image | full_urls); '
TAR = RAW.replace("raw_sink", "tar_sink")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Provisioner]:
    with Provisioner(tmp_path / "site") as site:
        yield site


def machine_with(
    site: Provisioner, folder: Path, image: Path, form: str, shell: tuple[str, ...] = SHELLS[0]
) -> FileMachine:
    site.offer(image, form)
    machine = FileMachine(folder / "machine", shell)
    machine.boots(site, "install")
    machine.has_order(site)
    return machine


def raw_image(site: Provisioner) -> Path:
    image = site.files / "disk.raw"
    image.write_bytes(os.urandom(2_600_000))
    return image


def tar_image(site: Provisioner, folder: Path) -> Path:
    (folder / "content").write_text("content\n")
    with tarfile.open(site.files / "disk.tar", "w") as tar:
        tar.add(folder / "content", arcname="./etc/content")
    return site.files / "disk.tar"


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_a_lost_connection_costs_one_piece(site: Provisioner, tmp_path: Path, shell: tuple[str, ...]) -> None:
    image, disk = raw_image(site), tmp_path / "disk"
    disk.write_bytes(b"x" * 4_000_000)
    machine = machine_with(site, tmp_path, image, "raw", shell)
    site.cuts = [10**9, 5000]
    done = machine.does(SMALL + f"chosen={disk}; {RAW} write_head $size $sum")
    assert done.returncode == 0, done.stdout + done.stderr
    assert disk.read_bytes()[:2_600_000] == image.read_bytes()
    assert "disk.raw at 1048576 of 2600000 bytes: status 206" in done.stdout
    starts = [line.rpartition("=")[2].partition("-")[0] for line in site.asked if "bytes=" in line]
    assert starts == ["0", "1048576", "1048576", "2097152"]
    assert [report["percent"] for report in site.reports("written")] == [100]


@pytest.mark.parametrize(("seconds", "reported"), [(3, []), (6, [80])], ids=["quick", "slow"])
def test_a_fetch_reports_its_progress_each_fifteen_seconds(
    site: Provisioner, tmp_path: Path, seconds: int, reported: list[int]
) -> None:
    (tmp_path / "disk").touch()
    machine = machine_with(site, tmp_path, raw_image(site), "raw")
    clock = f'now=1000; uptime_seconds() {{ echo $now; }}; sinks() {{ raw_sink "$@"; now=$((now + {seconds})); }}; '
    done = machine.does(f"PIECE_BYTES=700000; chosen={tmp_path}/disk; {clock}{RAW.replace('raw_sink', 'sinks')}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [report["percent"] for report in site.reports("fetched")] == reported


def test_an_image_with_another_sum_never_boots(site: Provisioner, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(b"x" * 4_000_000)
    machine = machine_with(site, tmp_path, raw_image(site), "raw")
    site.spoils = True
    done = machine.does(SMALL + f"chosen={disk}; {RAW} write_head $size $sum")
    assert done.returncode == 1
    assert disk.read_bytes()[: 1 << 20] == bytes(1 << 20)
    (report,) = site.reports("failed")
    assert report["reason"].startswith("the image has the SHA-256 ")
    assert f"ocb: FAILED: {report['reason']}" in done.stdout


def test_a_disk_that_returns_other_bytes_never_boots(site: Provisioner, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(b"x" * 4_000_000)
    machine = machine_with(site, tmp_path, raw_image(site), "raw")
    lies = f"forget_cache() {{ printf y | dd of={disk} seek=2000000 bs=1 conv=notrunc 2>/dev/null; }}; "
    done = machine.does(SMALL + lies + f"chosen={disk}; {RAW} write_head $size $sum")
    assert done.returncode == 1
    assert disk.read_bytes()[: 1 << 20] == bytes(1 << 20)
    (report,) = site.reports("failed")
    assert report["reason"].startswith("the disk returned other bytes than were written")


def test_a_tar_is_unpacked_and_compared(site: Provisioner, tmp_path: Path) -> None:
    machine = machine_with(site, tmp_path, tar_image(site, tmp_path), "tar")
    done = machine.does(f"{TAR} write_tar")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (machine.target / "etc/content").read_text() == "content\n"
    assert not (machine.target / ".ocb-image").exists()


def test_a_file_that_the_disk_changed_fails_the_installation(site: Provisioner, tmp_path: Path) -> None:
    machine = machine_with(site, tmp_path, tar_image(site, tmp_path), "tar")
    lies = f"forget_cache() {{ echo CONTENT >{machine.target}/etc/content; }}; "
    done = machine.does(f"{lies} {TAR} write_tar")
    assert done.returncode == 1
    assert "tar failed: " in site.reports("failed")[0]["reason"]


def test_an_absent_image_is_named(site: Provisioner, tmp_path: Path) -> None:
    machine = machine_with(site, tmp_path, raw_image(site), "raw")
    (site.files / "disk.raw").unlink()
    machine.does(SMALL + f"chosen={tmp_path}/disk; {RAW}")
    assert site.reports("failed")[0]["reason"] == f"the server has no {site.http}/disk.raw"


@pytest.mark.parametrize("absent", ["http://127.0.0.1:9/disk.raw", "{site.http}/none.raw"], ids=["dead", "without it"])
def test_the_next_server_gives_the_rest(site: Provisioner, tmp_path: Path, absent: str) -> None:
    image, disk = raw_image(site), tmp_path / "disk"
    disk.write_bytes(b"x" * 4_000_000)
    machine = machine_with(site, tmp_path, image, "raw")
    urls = f"{SMALL} chosen={disk}; fetch $(ordered size) $(ordered checksum | cut -d: -f2) raw_sink "
    done = machine.does(f"{urls} {absent.format(site=site)} {site.http}/disk.raw; write_head $size $sum")
    assert done.returncode == 0, done.stdout
    assert disk.read_bytes()[:2_600_000] == image.read_bytes()


def test_a_machine_waits_for_a_place_at_a_busy_server_and_counts_no_failure(site: Provisioner, tmp_path: Path) -> None:
    image, disk = raw_image(site), tmp_path / "disk"
    disk.write_bytes(b"x" * 4_000_000)
    machine = machine_with(site, tmp_path, image, "raw")
    site.busy, site.cuts = 5, [5000]
    clock = "FETCH_SECONDS=4; now=0; sleep() { now=$((now + $1)); echo $now >$OCB_RUN/now; }; "
    clock += "uptime_seconds() { cat $OCB_RUN/now 2>/dev/null || echo 0; }; "
    done = machine.does(SMALL + clock + f"chosen={disk}; {RAW} write_head $size $sum")
    assert done.returncode == 0, done.stdout + done.stderr
    assert disk.read_bytes()[:2_600_000] == image.read_bytes()
    assert done.stdout.count("waiting for a place") == 1
    assert done.stdout.count("trying again") == 1, "the connection that was lost"


def test_a_machine_waits_for_a_place_a_bounded_time(site: Provisioner, tmp_path: Path) -> None:
    machine = machine_with(site, tmp_path, raw_image(site), "raw")
    site.busy = 10**9
    machine.does(SMALL + f"BUSY_SECONDS=30; chosen={tmp_path}/disk; {RAW}")
    assert (
        site.reports("failed")[0]["reason"]
        == "no server had a place for the image in 30 seconds; 0 of 2600000 bytes are here"
    )
