"""Nodepool 11's launcher hands static nodes in every state over to ours: nothing is lost, and no slot has two nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.testing.machines import Farm
from tests.interop.nodepool_launcher import SECONDS, Nodepool11, rack, states, store
from tests.interop.tls_proxy import TlsProxy
from tests.launcher.launcher_fleet import LauncherFleet

pytestmark = pytest.mark.long

#: A node in each of these is begun or left by a launcher of Nodepool that stopped in the middle.
UNFINISHED: Final = ("init", "building", "testing", "used", "deleting", "failed", "aborted")


def test_static_nodes_in_every_state_move_to_our_launcher(
    launchers: LauncherFleet, nodepool11: Path, tmp_path: Path
) -> None:
    count = len(UNFINISHED) + 3
    with Farm(count, tmp_path / "farm") as farm, TlsProxy(launchers.server.port, tmp_path / "tls") as proxy:
        provider = rack(farm, count)
        peer = Nodepool11(nodepool11, proxy, launchers, provider)
        with peer.launcher():
            launchers.until(lambda: len(launchers.nodes(PoolNodeState.READY)) == count, "all are ready", SECONDS)
            request = launchers.request("small")
            launchers.fulfilled(request, SECONDS)
            launchers.take(request)
            held, _, *others = launchers.nodes(PoolNodeState.READY)
            peer.run("hold", held)
        for id, state in zip(others, UNFINISHED, strict=True):
            store(launchers, id, state)
        before = states(launchers)
        assert sorted(before.values()) == sorted(["hold", "in-use", "ready", *UNFINISHED])
        assert before == peer.states()

        ours = launchers.launcher(provider)
        ours.start()

        def settled() -> bool:
            return sorted(states(launchers).values()) == sorted(["hold", "in-use", *["ready"] * (count - 2)])

        launchers.until(settled, "each unfinished slot is ready again, in a new node", SECONDS)
        after = states(launchers)
        kept = {id: state for id, state in before.items() if state in ("hold", "in-use", "ready")}
        assert {id: after.get(id) for id in kept} == kept
        assert not after.keys() & set(others)
        assert len({node.interface_ip for node in launchers.nodes().values()}) == count, "no slot has two nodes"
        assert after == peer.states()
