"""The images-dir: what is removed, what never, and that nothing leads out of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb_builder.image_directory import ImageDirectory
from nodepool_ocb_builder.renaming import rename_new

BUILD = "jammy-0000000001"


@pytest.fixture
def directory(tmp_path: Path) -> ImageDirectory:
    return ImageDirectory(tmp_path / "images", tmp_path / "logs")


def test_the_newest_logs_stay_at_least_one_and_all_where_that_is_said(directory: ImageDirectory) -> None:
    names = [f"jammy-{number:010}.log" for number in range(1, 6)]
    for name in names:
        (directory.logs / name).touch()
    assert directory.prune_logs((), -1) == []
    assert [path.name for path in directory.prune_logs((), 2)] == names[:3]
    assert [path.name for path in directory.prune_logs((), 0)] == [names[3]]
    assert sorted(os.listdir(directory.logs)) == [names[4]]


def test_the_logs_of_recorded_builds_stay_and_count_among_the_newest(directory: ImageDirectory) -> None:
    names = [f"jammy-{number:010}" for number in range(1, 6)]
    for name in names:
        directory.log(name).touch()
    assert [path.stem for path in directory.prune_logs({names[0], names[4]}, 2)] == names[1:3]
    assert [path.stem for path in directory.prune_logs({names[0], names[4]}, 1)] == [names[3]]
    assert sorted(path.stem for path in directory.logs.iterdir()) == [names[0], names[4]]


def test_the_logs_of_one_image_can_be_pruned_alone(directory: ImageDirectory) -> None:
    for image in ("jammy", "noble"):
        for number in (1, 2):
            directory.log(f"{image}-{number:010}").touch()
    assert [path.stem for path in directory.prune_logs((), 1, "noble")] == ["noble-0000000001"]


@pytest.mark.parametrize("image", ["jammy", "c++~dev@site", "_under.score", "Ubuntu"])
def test_every_name_that_an_image_may_have_is_known_again(directory: ImageDirectory, image: str) -> None:
    for name in (f"{image}-0000000001.raw", f"{image}-0000000001.raw.md5.new"):
        (directory.folder / name).touch()
    for number in (1, 2):
        (directory.logs / f"{image}-000000000{number}.log").touch()
    assert len(directory.orphans(())) == 2
    assert [path.name for path in directory.prune_logs((), 1)] == [f"{image}-0000000001.log"]


@pytest.mark.parametrize("format", ["d/../../precious", "../precious", "", "."])
def test_no_format_leads_out_of_the_directory(directory: ImageDirectory, tmp_path: Path, format: str) -> None:
    directory.manifest(BUILD).mkdir()
    (tmp_path / "precious").touch()
    with pytest.raises(Invalid):
        directory.remove_format(BUILD, format)
    with pytest.raises(Invalid):
        directory.file(BUILD, format)
    assert (tmp_path / "precious").exists()


def test_what_is_mounted_in_a_build_is_not_deleted_with_it(directory: ImageDirectory, tmp_path: Path) -> None:
    cache, point = tmp_path / "cache", directory.work(BUILD) / "chroot" / "cache"
    cache.mkdir()
    (cache / "package").write_text("precious")
    point.mkdir(parents=True)
    if subprocess.run(["mount", "--bind", cache, point], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount")
    try:
        assert directory.remove(BUILD) == []
    finally:
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)
    assert (cache / "package").read_text() == "precious"
    assert not directory.work(BUILD).exists()


def test_nothing_is_renamed_over_a_file(tmp_path: Path) -> None:
    made, there = tmp_path / "made", tmp_path / "there"
    made.write_text("new")
    there.write_text("old")
    with pytest.raises(FileExistsError):
        rename_new(made, there)
    assert (made.read_text(), there.read_text()) == ("new", "old")
    rename_new(made, tmp_path / "free")
    assert sorted(os.listdir(tmp_path)) == ["free", "there"]
    with pytest.raises(FileNotFoundError):
        rename_new(made, tmp_path / "other")


def test_a_finished_file_keeps_its_place(directory: ImageDirectory) -> None:
    directory.file(BUILD, "raw").write_text("old")
    directory.unfinished(BUILD, "raw").write_text("new")
    with pytest.raises(Conflict, match="move it away, or delete it"):
        directory.finish(BUILD, "raw")
    assert directory.file(BUILD, "raw").read_text() == "old"
    directory.unfinished(BUILD, "qcow2").write_text("new")
    assert directory.finish(BUILD, "qcow2").read_text() == "new"
