"""A launcher that is killed at any moment of a launch, a hand-out or a deletion leaves one machine or none, and no open work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.pool.configuration import LaunchProvider, PoolConfiguration, PoolLabel, PoolLabelPolicy, ProviderPool
from nodepool_ocb.pool.idle import upkeep
from tests.launcher.killed_launchers import KilledLauncher, killing
from tests.launcher.launcher_fleet import LauncherFleet

GROUPS: Final = 4  # of moments: each test has every fourth


def configuration(folder: Path, annealed: bool) -> PoolConfiguration:
    label = PoolLabel(name="small")
    pool = ProviderPool(name="main", provider="north", labels={"small": label})
    options = {"fake-cloud": {"directory": str(folder)}}
    north = LaunchProvider(name="north", driver="fake", pools={"main": pool}, options=options)
    return PoolConfiguration(
        labels={"small": PoolLabelPolicy(name="small", annealed=annealed)}, providers={"north": north}
    )


class KillStory:
    """A request from its creation to the deletion of its node, while the first launcher dies at a moment."""

    def __init__(self, launchers: LauncherFleet, folder: Path, moment: int, annealed: bool) -> None:
        self.fleet, self.moment = launchers, moment
        self.settings = ZooKeeperSettings(hosts=launchers.server.hosts + launchers.chroot)
        self.configuration = configuration(folder, annealed)
        self.launchers: list[KilledLauncher] = []

    def machines(self) -> int:
        return len(self.fleet.machines("north"))

    def replace_the_dead(self) -> None:
        """After the death of the first launcher a second one comes."""
        first = self.launchers[0]
        if first.dead.is_set() and len(self.launchers) == 1:
            first.__exit__()
            self.launchers.append(KilledLauncher(self.settings, self.configuration).__enter__())

    def until(self, holds: Callable[[], object], what: str) -> None:
        def step() -> bool:
            self.replace_the_dead()
            assert self.machines() <= 1, "no node has two machines"
            return bool(holds())

        self.fleet.until(step, f"{what}, after {self.launchers[0].moments}")

    def run(self) -> bool:
        """Whether the launcher reached the moment."""
        with killing(lambda: list(self.launchers)):
            self.launchers.append(KilledLauncher(self.settings, self.configuration, self.moment).__enter__())
            try:
                self._tell()
            finally:
                for each in self.launchers:
                    each.__exit__()
        return len(self.launchers) > 1

    def _tell(self) -> None:
        request = self.fleet.request("small")
        self.until(lambda: (found := self.fleet.read(request)) and found.nodes, "it is fulfilled")
        assert self.machines() == 1
        locks = self.fleet.take(request)
        self.fleet.give_back(request, locks)
        self.until(lambda: not self.fleet.nodes(), "the node is deleted")
        assert self.machines() == 0
        assert not self.fleet.session.children(paths.NODES), "nor a node of /ocb"


@pytest.mark.parametrize("annealed", [False, True])
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_launcher_killed_at_any_moment_leaves_one_machine_or_none(
    launchers: LauncherFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int, annealed: bool
) -> None:
    monkeypatch.setattr(upkeep, "GRACE_SECONDS", 0.2)
    folder = tmp_path / "clouds" / "north"
    folder.mkdir(parents=True)
    for moment in range(group + 1, 200, GROUPS):
        if not KillStory(launchers, folder, moment, annealed).run():
            assert moment > 10, "the story has many moments"
            return
    pytest.fail("the story never ends")
