"""Canaries for the tests of this room: one flock for each module."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.hostile.canaries import Canaries
from tests.journeys.hostile.village import settle


@pytest.fixture(scope="module")
def canaries(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canaries]:
    """Two annealers with canaries that need no machine."""
    chroot = f"/hostile-{secrets.token_hex(4)}"
    with Canaries(zookeeper, chroot, tmp_path_factory.mktemp("hostile")) as canaries:
        yield canaries


@pytest.fixture(scope="module")
def canaries_on_machines(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canaries]:
    """The same, with one canary more that is a script on a real machine."""
    chroot = f"/hostile-{secrets.token_hex(4)}"
    with Canaries(zookeeper, chroot, tmp_path_factory.mktemp("hostile"), machines=1) as canaries:
        yield canaries


@pytest.fixture(scope="module")
def village(canaries: Canaries) -> Canaries:
    """One record of every kind beside the canaries."""
    settle(canaries)
    return canaries
