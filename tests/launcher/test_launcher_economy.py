"""The cost of an idle launcher, as the server counts it."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.zookeeper.counters import requests, transactions
from nodepool_ocb.testing.zookeeper.server import Server
from tests.launcher.launcher_fleet import LauncherFleet

LABELS, PROVIDERS = 50, 4


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[LauncherFleet]:
    """A fleet on a server that no other test uses."""
    with Server(fsync=False) as server, LauncherFleet(server, "/economy", tmp_path) as made:
        yield made


@pytest.mark.long
def test_an_idle_launcher_of_fifty_labels_at_four_providers_writes_nothing(alone: LauncherFleet) -> None:
    names = [f"label-{number}" for number in range(LABELS)]
    labels = [{"name": name, "min-ready": 1} for name in names]
    clouds = [alone.cloud(f"cloud-{number}", *names) for number in range(PROVIDERS)]
    launcher = alone.launcher(
        *clouds, labels=labels, sweep_seconds=8.0, leak_seconds=600.0, session_seconds=10.0
    ).start()
    alone.until(lambda: len(alone.nodes(PoolNodeState.READY)) == LABELS, "all are ready", 60.0)
    sweeps = launcher.metric("nodepool_ocb_sweeps_total")
    alone.until(lambda: launcher.metric("nodepool_ocb_sweeps_total") > sweeps, "it rests", 60.0)
    wrote, asked = transactions(alone.server), requests(alone.server)
    sweeps = launcher.metric("nodepool_ocb_sweeps_total")
    alone.until(lambda: launcher.metric("nodepool_ocb_sweeps_total") > sweeps, "a sweep later", 60.0)
    assert transactions(alone.server) == wrote
    assert requests(alone.server) - asked <= 35, "of one sweep, and the pings of two sessions in its 8 s"


def test_the_cycle_of_a_static_slot_takes_two_transactions_of_the_launcher(
    alone: LauncherFleet, tmp_path: Path
) -> None:
    with Farm(1, tmp_path / "farm") as farm:
        host, port = farm.address(0)
        machine = {"name": host, "connection-port": port, "labels": ["small"], "username": getpass.getuser()}
        rack = {"name": "rack", "driver": "static", "pools": [{"name": "main", "nodes": [machine]}]}
        launcher = alone.launcher(rack, sweep_seconds=600.0, session_seconds=30.0).start()
        alone.until(lambda: alone.nodes(PoolNodeState.READY), "the slot is ready")
        alone.session.now()  # the first call writes the clock
        first, wrote = next(iter(alone.nodes())), transactions(alone.server)
        request = alone.request("small")  # 1
        alone.fulfilled(request)
        alone.give_back(request, alone.take(request))  # lock, in-use, used, unlock, delete: 5
        alone.until(lambda: first not in alone.nodes(PoolNodeState.READY) and alone.nodes(PoolNodeState.READY), "again")
        of_requester = 6
        assert transactions(alone.server) - wrote - of_requester <= 2, "the hand-out, and the next node of the slot"
        assert launcher.running()
