"""Driver local: a directory that fills up, is shared, or was left in disorder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb import providers
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.providers import Item
from tests.providers.sites import (
    Ledger,
    Trickle,
    image_file,
    local_provider,
    new_item,
    refused,
    sent,
    stamped,
    uploading_process,
)


@pytest.fixture
def item(tmp_path: Path) -> Item:
    return new_item(image_file(tmp_path / "image"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False).returncode:
        pytest.skip("no file system may be mounted here; be root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_refuses_and_is_as_empty_as_before(small_disk: Path, tmp_path: Path) -> None:
    uploader = providers.open(local_provider(small_disk))
    outcome = refused(uploader.upload(new_item(image_file(tmp_path / "image", 3 << 20))))
    assert "No space left on device" in outcome.reason
    assert not outcome.lasting
    assert [*small_disk.iterdir()] == []
    sent(uploader.upload(new_item(image_file(tmp_path / "image"))))


def test_a_copy_shares_nothing_with_its_source(laboratory: Ledger, item: Item, tmp_path: Path) -> None:
    external_id = sent(laboratory.upload(item))
    item.file.write_bytes(b"other")
    assert laboratory.verify(external_id, item) is None
    assert (tmp_path / "laboratory" / external_id).stat().st_nlink == 1


def test_the_side_file_says_what_the_image_is(laboratory: Ledger, item: Item, tmp_path: Path) -> None:
    external_id = sent(laboratory.upload(item))
    assert msgspec.json.decode((tmp_path / "laboratory" / f"{external_id}.json").read_bytes()) == {
        "external_name": item.external_name,
        "stamp": item.stamp.labels,
        "meta": item.meta,
        "sha256": item.sha256,
        "size": item.size,
    }


def test_a_copy_that_was_damaged_is_not_verified(laboratory: Ledger, item: Item, tmp_path: Path) -> None:
    external_id = sent(laboratory.upload(item))
    with (tmp_path / "laboratory" / external_id).open("r+b") as file:
        file.seek(1000)
        file.write(b"\0" * 64)
    assert "differs from the sent file" in refused(laboratory.verify(external_id, item)).reason


def test_leftovers_of_a_killed_builder_are_listed_and_deleted(
    laboratory: Ledger, item: Item, tmp_path: Path, until: Callable[..., None]
) -> None:
    with Trickle(item, tmp_path) as trickle:
        provider = local_provider(tmp_path / "laboratory")
        with uploading_process(provider, trickle.item) as builder:
            trickle.write(200_000)
            until(lambda: [*laboratory.list()])
            builder.kill()
    (kept,) = laboratory.list()
    assert kept.stamp == item.stamp
    assert laboratory.delete(kept.external_id, kept.stamp) is None
    assert [*(tmp_path / "laboratory").iterdir()] == []


def test_temporary_files_go_when_they_are_old(laboratory: Ledger, item: Item, tmp_path: Path) -> None:
    external_id = sent(laboratory.upload(item))
    fresh, old = (tmp_path / "laboratory" / f".{name}.part" for name in ("fresh", "old"))
    fresh.touch()
    old.touch()
    os.utime(old, (0, 0))
    assert [kept.external_id for kept in laboratory.list()] == [external_id]
    assert fresh.exists()
    assert not old.exists()
    fresh.unlink()


def test_two_clusters_in_one_directory_take_nothing_from_each_other(laboratory: Ledger, item: Item) -> None:
    external_id = sent(laboratory.upload(item))
    outcome = refused(laboratory.upload(replace(item, stamp=replace(item.stamp, cluster="theirs"))))
    assert outcome.lasting
    assert "was not written by this builder" in outcome.reason
    assert laboratory.verify(external_id, item) is None


def test_two_providers_in_one_directory_keep_their_images_apart(laboratory: Ledger, item: Item) -> None:
    east = stamped(item, provider="east")
    both = [sent(laboratory.upload(item)), sent(laboratory.upload(east))]
    assert {kept.external_id for kept in laboratory.list()} == set(both)
    assert "is not" in refused(laboratory.uploader.delete(both[0], east.stamp)).reason
    assert laboratory.delete(both[1]) is None
    assert laboratory.verify(both[0], item) is None


def test_a_file_without_a_stamp_is_not_deleted(laboratory: Ledger, item: Item, tmp_path: Path) -> None:
    folder = tmp_path / "laboratory"
    folder.mkdir()
    (folder / "theirs.raw").touch()
    assert "the stamp on it is none" in refused(laboratory.delete("theirs.raw", item.stamp)).reason
    (folder / "theirs.raw").unlink()


def test_the_longest_names_fit_into_the_name_of_a_file(laboratory: Ledger, item: Item) -> None:
    longest = stamped(item, image="i" * 200, provider="p" * 200)
    assert laboratory.verify(sent(laboratory.upload(longest)), longest) is None


def test_files_of_others_are_not_listed(laboratory: Ledger, tmp_path: Path) -> None:
    assert [*laboratory.list()] == []
    folder = tmp_path / "laboratory"
    folder.mkdir()
    (folder / "theirs.json").write_text("{}")
    (folder / "broken.json").write_text("{")
    assert [*laboratory.list()] == []
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize("name", ["../image", "/etc/passwd", ".hidden", "a/b"])
def test_no_name_leads_out_of_the_directory(laboratory: Ledger, item: Item, name: str) -> None:
    assert refused(laboratory.delete(name)).lasting
    assert refused(laboratory.upload(replace(item, external_name=name))).lasting


def test_a_directory_that_is_none_is_told(tmp_path: Path, item: Item) -> None:
    (tmp_path / "file").touch()
    uploader = providers.open(local_provider(tmp_path / "file"))
    assert "File exists" in refused(uploader.upload(item)).reason
    with pytest.raises(Unavailable, match="Not a directory"):
        list(uploader.list())
