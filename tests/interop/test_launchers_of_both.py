"""A launcher of Nodepool 11 and one of ours serve one tree at the same time, each with a provider of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolComponent, PoolNodeState, RequestState
from nodepool_ocb.store.client import codec
from nodepool_ocb.testing.machines import Farm
from tests.interop.nodepool_launcher import SECONDS, Nodepool11, rack
from tests.interop.tls_proxy import TlsProxy
from tests.launcher.launcher_fleet import LauncherFleet

pytestmark = pytest.mark.long


def offered(launchers: LauncherFleet) -> set[str]:
    """The labels of all registered pools."""
    folder = paths.components("pool")
    found = launchers.session.get_many([f"{folder}/{name}" for name in launchers.session.children(folder) or ()])
    records = [codec.decode(PoolComponent, znode) for znode in found if znode is not None]
    return {label for record in records for label in record.supported_labels}


def test_each_product_serves_its_own_labels_and_a_label_of_neither_fails(
    launchers: LauncherFleet, nodepool11: Path, tmp_path: Path
) -> None:
    def failed(id: str) -> bool:
        record = launchers.read(id)
        return record is not None and record.state is RequestState.FAILED

    with Farm(1, tmp_path / "farm") as farm, TlsProxy(launchers.server.port, tmp_path / "tls") as proxy:
        peer = Nodepool11(nodepool11, proxy, launchers, rack(farm, 1))
        launchers.launcher(launchers.cloud("north", "ours"), labels=[{"name": "ours"}]).start()
        with peer.launcher():
            launchers.until(lambda: "small" in offered(launchers), "Nodepool's pool is registered", SECONDS)
            theirs, ours = launchers.request("small"), launchers.request("ours")
            found = [launchers.fulfilled(each, SECONDS)[0] for each in (theirs, ours)]
            assert [node.provider for node in found] == ["rack", "north"]
            for each in (theirs, ours):
                record = launchers.read(each)
                assert record is not None
                assert record.declined_by == ()
                launchers.give_back(each, launchers.take(each))
            nothing = launchers.request("nothing")
            launchers.until(lambda: failed(nothing), "a label of neither fails", SECONDS)
            launchers.until(lambda: not launchers.machines("north"), "our machine is deleted", SECONDS)
            launchers.until(lambda: launchers.nodes(PoolNodeState.READY), "Nodepool's machine is ready again", SECONDS)
