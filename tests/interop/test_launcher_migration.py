"""Nodepool 11's launcher hands its static nodes over to ours on the same tree, and ours hands them back."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.testing.machines import Farm
from tests.interop.nodepool_launcher import SECONDS, Nodepool11, rack, states
from tests.interop.tls_proxy import TlsProxy
from tests.launcher.launcher_fleet import LauncherFleet

pytestmark = pytest.mark.long


def test_static_nodes_move_to_our_launcher_and_back(launchers: LauncherFleet, nodepool11: Path, tmp_path: Path) -> None:
    with Farm(3, tmp_path / "farm") as farm, TlsProxy(launchers.server.port, tmp_path / "tls") as proxy:
        provider = rack(farm, 3)
        peer = Nodepool11(nodepool11, proxy, launchers, provider)

        with peer.launcher():
            launchers.until(lambda: len(launchers.nodes(PoolNodeState.READY)) == 3, "three nodes are ready", SECONDS)
            first = launchers.request("small")
            (used,) = launchers.fulfilled(first, SECONDS)
            locks = launchers.take(first)
            held = next(iter(launchers.nodes(PoolNodeState.READY)))
            peer.run("hold", held)
        before = states(launchers)
        assert sorted(before.values()) == ["hold", "in-use", "ready"]

        ours = launchers.launcher(provider)
        ours.start()
        assert states(launchers) == before == peer.states()
        (ready,) = launchers.nodes(PoolNodeState.READY)
        second = launchers.request("small")
        launchers.fulfilled(second, SECONDS)
        record = launchers.read(second)
        assert record is not None
        assert record.nodes == (ready,)
        launchers.give_back(first, locks)
        launchers.until(
            lambda: any(
                node.allocated_to is None and node.interface_ip == used.interface_ip
                for node in launchers.nodes(PoolNodeState.READY).values()
            ),
            "the returned slot is ready again",
            SECONDS,
        )
        assert states(launchers) == peer.states()
        middle = states(launchers)
        ours.discard(10.0)
        launchers.launchers.remove(ours)

        with peer.launcher():
            third = launchers.request("small")
            launchers.fulfilled(third, SECONDS)
            after = states(launchers)
            assert {id: after.get(id) for id in middle} == middle
            assert after == peer.states()
