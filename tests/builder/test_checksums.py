"""Checksums are what coreutils say, and a damaged file is found; a full disk is said before a build begins."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.testing.disks import SmallDisk, mountable
from nodepool_ocb_builder import checksums, space


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "debian-0000000001.raw"
    file.write_bytes(os.urandom(3_000_001))
    return file


@pytest.mark.parametrize("algorithm", checksums.ALGORITHMS)
def test_coreutils_agree(file: Path, algorithm: str) -> None:
    sums = checksums.write(file)
    assert sums["size"] == 3_000_001
    made = subprocess.run([f"{algorithm}sum", file.name], cwd=file.parent, capture_output=True, text=True, check=True)
    assert (file.parent / f"{file.name}.{algorithm}").read_text() == made.stdout
    subprocess.run([f"{algorithm}sum", "-c", f"{file.name}.{algorithm}"], cwd=file.parent, check=True)
    assert sorted(os.listdir(file.parent)) == [file.name, f"{file.name}.md5", f"{file.name}.sha256"]
    checksums.verify(file)


def test_a_damaged_file_is_found(file: Path) -> None:
    checksums.write(file)
    with file.open("r+b") as target:
        target.seek(1_500_000)
        target.write(bytes(8))
    with pytest.raises(Invalid) as refused:
        checksums.verify(file)
    assert [problem.split(": ")[1].split(" is ")[0] for problem in refused.value.problems] == ["its md5", "its sha256"]
    assert all(problem.endswith("the file is damaged: build the image again") for problem in refused.value.problems)


@pytest.mark.parametrize("lost", ["debian-0000000001.raw", "debian-0000000001.raw.md5"])
def test_a_lost_file_is_found(file: Path, lost: str) -> None:
    checksums.write(file)
    (file.parent / lost).unlink()
    with pytest.raises(Invalid, match=f"{lost} cannot be read: No such file or directory"):
        checksums.verify(file)


def test_an_empty_checksum_is_found(file: Path) -> None:
    checksums.write(file)
    checksums.beside(file, "sha256").write_text("")
    with pytest.raises(Invalid, match="sha256 is empty; build the image again"):
        checksums.verify(file)


def test_a_folder_with_too_little_room_is_named(tmp_path: Path) -> None:
    assert space.shortage([tmp_path], 1) is None
    reason = space.shortage([tmp_path], 1 << 60)
    assert reason is not None
    assert f" are free in {tmp_path}, and a build begins with at least 1048576.0 TiB; " in reason
    absent = space.shortage([tmp_path, tmp_path / "no"], 1)
    assert absent == f"{tmp_path}/no cannot be used: No such file or directory; make it, or name another folder"


@pytest.mark.skipif(not mountable(), reason="takes the right to mount")
def test_a_build_waits_for_room_for_its_log_too(tmp_path: Path) -> None:
    assert space.blocker(tmp_path, tmp_path, 1 << 20) is None
    with SmallDisk(tmp_path / "logs", 1 << 16) as small:
        assert f" are free in {small.folder}" in (space.blocker(tmp_path, small.folder, 1 << 20) or "")


def test_the_image_is_on_the_disk_before_its_checksums_say_so(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    monkeypatch.setattr(os, "fsync", fsync)
    checksums.write(file)
    assert synced == [file.name, f"{file.name}.md5.new", f"{file.name}.sha256.new", file.parent.name]
