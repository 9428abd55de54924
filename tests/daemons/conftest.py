"""Fleets for the tests of this room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet

from nodepool_ocb.testing.zookeeper import Server


@pytest.fixture
def fleet(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    """One machine, and no annealer yet."""
    with Fleet(zookeeper, chroot, tmp_path) as fleet:
        yield fleet
