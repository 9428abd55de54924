"""ZooKeeper is restored from an older copy: ids of nodes return, and nothing of a node of the lost time is used."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.model.pool import PoolNode, PoolNodeState, launch_facts
from nodepool_ocb.testing.zookeeper.server import Server
from tests.launcher.launcher_fleet import LauncherFleet

LABELS = [{"name": "small", "min-ready": 1}]


class RestoredSite:
    """A server of its own; a fleet for each life of it, with the machines of all lives at one provider."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder

    def live(self, story: Callable[[LauncherFleet], Any]) -> Any:
        """Tell a story beside a launcher, which ends with it."""
        with LauncherFleet(self.server, "/site", self.folder) as fleet:
            launcher = fleet.launcher(fleet.cloud("north"), labels=LABELS).start()
            found = story(fleet)
            launcher.terminate()
            assert launcher.wait(10.0) == 0
            return found

    def restored(self) -> str:
        """The command."""
        answer = CliRunner().invoke(cli, ["--zookeeper", self.server.hosts + "/site", "restored"])
        return f"{answer.exit_code}: {answer.output}"

    def copied(self, source: Path, to: Path) -> None:
        self.server.kill()
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(source, to)
        self.server.start()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[RestoredSite]:
    with Server(fsync=False) as server:
        yield RestoredSite(server, tmp_path)


def ready(fleet: LauncherFleet) -> dict[str, PoolNode]:
    """Wait for the node of min-ready."""
    fleet.until(lambda: fleet.nodes(PoolNodeState.READY), "a node is ready")
    return fleet.nodes(PoolNodeState.READY)


def used(fleet: LauncherFleet) -> dict[str, PoolNode]:
    """A user gets the ready node, and returns it; gives the next one."""
    before = ready(fleet)
    request = fleet.request("small")
    fleet.fulfilled(request)
    fleet.give_back(request, fleet.take(request))
    fleet.until(lambda: not before.keys() & fleet.nodes().keys(), "the used node is deleted")
    return ready(fleet)


@pytest.mark.long
def test_a_node_with_an_id_of_the_lost_time_has_a_machine_and_a_stamp_of_its_own(site: RestoredSite) -> None:
    copied = site.live(ready)
    site.copied(site.server.directory / "data", site.folder / "copy")
    lost = site.live(used)
    site.copied(site.folder / "copy", site.server.directory / "data")
    assert site.restored().startswith("0:")

    def asked(fleet: LauncherFleet) -> PoolNode:
        (node,) = fleet.fulfilled(fleet.request("small"))
        assert node.external_id in {each["machine"]["external_id"] for each in fleet.machines("north")}
        assert lost.keys() & fleet.nodes().keys(), "an id returned"
        for id in lost.keys() & fleet.nodes().keys():
            former, now = launch_facts(lost[id]), launch_facts(fleet.nodes()[id])
            assert former is not None
            assert now is not None
            assert (former.key, lost[id].external_id) != (now.key, fleet.nodes()[id].external_id)
        return node

    node = site.live(asked)
    former = {each.external_id for each in (*copied.values(), *lost.values())}
    assert node.external_id not in former


def test_the_command_waits_for_the_end_of_launchers(site: RestoredSite) -> None:
    def asked(fleet: LauncherFleet) -> str:
        ready(fleet)
        return site.restored()

    answer = site.live(asked)
    assert answer.startswith("4: ")
    assert "launcher" in answer
