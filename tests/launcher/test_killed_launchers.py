"""A launcher that is killed at any moment of a launch, a hand-out or a deletion leaves one machine or none, and no open work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.pool.configuration import (
    LaunchProvider,
    PoolConfiguration,
    PoolLabel,
    PoolLabelPolicy,
    ProviderPool,
    StaticMachine,
)
from nodepool_ocb.pool.idle import upkeep
from nodepool_ocb.store.subtree import removal
from tests.launcher.killed_launchers import KilledLauncher, killing
from tests.launcher.launcher_fleet import LauncherFleet

GROUPS: Final = 4  # of moments: each test has every fourth


def configuration(folder: Path, kind: str) -> PoolConfiguration:
    """``annealed``: a launch with a node of /ocb; ``stock``: a node of min-ready is handed out; ``slot``: a static machine."""
    pool = ProviderPool(name="main", provider="north", labels={"small": PoolLabel(name="small")})
    driver, min_ready = "fake", 0
    if kind == "stock":
        pool, min_ready = replace(pool, limits={"instances": 1.0}), 1
    elif kind == "slot":
        box = StaticMachine(name="127.0.0.9", labels=("small",), username="root", host_key_checking=False)
        pool, driver = replace(pool, machines=(box,)), "static"
    options = {"fake-cloud": {"directory": str(folder)}} if driver == "fake" else {}
    north = LaunchProvider(name="north", driver=driver, pools={"main": pool}, options=options)
    policy = PoolLabelPolicy(name="small", annealed=kind == "annealed", min_ready=min_ready)
    return PoolConfiguration(labels={"small": policy}, providers={"north": north})


class KillStory:
    """A request from its creation to the deletion of its node, while the first launcher dies at a moment."""

    def __init__(self, launchers: LauncherFleet, folder: Path, moment: int, kind: str) -> None:
        self.fleet, self.moment, self.kind = launchers, moment, kind
        self.settings = ZooKeeperSettings(hosts=launchers.server.hosts + launchers.chroot)
        self.configuration = configuration(folder, kind)
        self.launchers: list[KilledLauncher] = []

    def launcher(self, moment: int) -> KilledLauncher:
        return KilledLauncher(self.settings, self.configuration, moment)

    def machines(self) -> int:
        """The number of machines, as far as is known."""
        return len(self.fleet.machines("north"))

    def counted(self) -> int:
        """The number of machines, by asking."""
        return self.machines()

    def replace_the_dead(self) -> None:
        """After the death of the first launcher a second one comes."""
        first = self.launchers[0]
        if first.dead.is_set() and len(self.launchers) == 1:
            first.__exit__()
            self.launchers.append(self.launcher(0).__enter__())

    def until(self, holds: Callable[[], object], what: str) -> None:
        def step() -> bool:
            self.replace_the_dead()
            assert self.machines() <= 1, "no node has two machines"
            assert self.kind != "slot" or len(self.fleet.nodes()) <= 1, "the slot has one node"
            return bool(holds())

        self.fleet.until(step, f"{what}, after {self.launchers[0].moments}")

    def run(self) -> bool:
        """Whether the launcher reached the moment."""
        with killing(lambda: list(self.launchers)):
            self.launchers.append(self.launcher(self.moment).__enter__())
            try:
                self._tell()
            finally:
                for each in self.launchers:
                    each.__exit__()
        return len(self.launchers) > 1

    def _tell(self) -> None:
        remains = self.kind in ("stock", "slot")  # the next node follows
        if remains:
            self.until(lambda: self.fleet.nodes(PoolNodeState.READY), "a node is ready")
        request = self.fleet.request("small")
        self.until(lambda: (found := self.fleet.read(request)) and found.nodes, "it is fulfilled")
        assert self.counted() == (self.kind != "slot")
        locks = self.fleet.take(request)
        used = self.fleet.nodes().keys()
        self.fleet.give_back(request, locks)
        self.until(lambda: not used & self.fleet.nodes().keys(), "the node is deleted")
        assert remains or self.counted() == 0
        assert not self.fleet.session.children(paths.NODES), "nor a node of /ocb"


def killed_at(launchers: LauncherFleet, folder: Path, kind: str, moments: Iterable[int]) -> None:
    """A story for each of these moments, until the launcher does not reach one."""
    cloud = folder / "clouds" / "north"
    cloud.mkdir(parents=True)
    for moment in moments:
        if not KillStory(launchers, cloud, moment, kind).run():
            assert moment > 10, "the story has many moments"
            return
        left = launchers.nodes()
        launchers.session.commit([change for id in left for change in removal(launchers.session, paths.pool_node(id))])
        for file in (cloud / "machines").glob("*.json"):
            file.unlink()
    pytest.fail("the story never ends")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A successor waits for a short time only."""
    monkeypatch.setattr(upkeep, "GRACE_SECONDS", 0.2)


@pytest.mark.parametrize("kind", ["launch", "annealed"])
@pytest.mark.parametrize("group", [0, *(pytest.param(group, marks=pytest.mark.long) for group in range(1, GROUPS))])
def test_a_launcher_killed_at_any_moment_leaves_one_machine_or_none(
    launchers: LauncherFleet, tmp_path: Path, group: int, kind: str
) -> None:
    killed_at(launchers, tmp_path, kind, range(group + 1, 200, GROUPS))


@pytest.mark.parametrize("kind", ["stock", "slot"])
def test_a_launcher_killed_at_some_moments_of_the_hand_out_of_a_ready_node_hands_it_out_once(
    launchers: LauncherFleet, tmp_path: Path, kind: str
) -> None:
    killed_at(launchers, tmp_path, kind, range(4, 200, 9))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["stock", "slot"])
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_launcher_killed_at_any_moment_of_the_hand_out_of_a_ready_node_hands_it_out_once(
    launchers: LauncherFleet, tmp_path: Path, group: int, kind: str
) -> None:
    killed_at(launchers, tmp_path, kind, range(group + 1, 200, GROUPS))
