"""The reason of a build that failed on a full disk names the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodepool_ocb.testing.disks import SmallDisk, mountable
from nodepool_ocb_builder.space import exhausted


def test_a_log_that_names_a_full_disk_gives_the_reason(tmp_path: Path) -> None:
    assert exhausted([tmp_path], "cp: write error: No space left on device\n") == "No space left on device"
    assert exhausted([tmp_path], "exit 1\n") is None
    assert exhausted([tmp_path / "absent"], "") is None


@pytest.mark.skipif(not mountable(), reason="mounting a tmpfs takes rights that this user does not have")
def test_a_full_disk_of_the_builder_gives_the_reason(tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "images") as disk:
        assert exhausted([disk.folder], "") is None
        disk.fill()
        assert exhausted([disk.folder], "") == f"No space left on device: 0 bytes are free in {disk.folder}"
