"""A yard of builders for each test, on the server that all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from yard import Yard

from nodepool_ocb.testing.zookeeper import Server


@pytest.fixture
def yard(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Yard]:
    """Nothing is in it yet."""
    with Yard(zookeeper, chroot, tmp_path) as made:
        yield made
