"""A launcher loses the answer to a write that the server has made: its connection is cut between the two."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.pool.idle import upkeep
from nodepool_ocb.testing.proxy import Proxy
from tests.launcher.killed_launchers import KilledLauncher, killing
from tests.launcher.launcher_fleet import LauncherFleet
from tests.launcher.test_killed_launchers import KillStory

GROUPS: Final = 4  # of writes: each test loses the answers to every fourth one
SWALLOWED_SECONDS: Final = 5.0


class DeafLauncher(KilledLauncher):
    """A launcher behind a proxy, which loses the answer to each write of its group."""

    def __init__(self, story: KillStory, proxy: Proxy, group: int) -> None:
        behind = ZooKeeperSettings(hosts=proxy.hosts + story.fleet.chroot)
        super().__init__(behind, story.configuration)
        self.lost = 0
        self._proxy, self._group, self._writes, self._counting = proxy, group, 0, threading.Lock()

    def meet(self, name: str) -> None:
        if name.startswith("before ") and not name.endswith(" of the provider"):
            with self._counting:
                self._writes += 1
                loses = self._writes % GROUPS == self._group
            if loses:
                self.lost += 1
                swallowed = self._proxy.drop_answers()
                threading.Thread(target=self._heal, args=(swallowed,), daemon=True).start()
        super().meet(name)

    def _heal(self, swallowed: threading.Event) -> None:
        swallowed.wait(SWALLOWED_SECONDS)
        self._proxy.heal()


class LostAnswerStory(KillStory):
    """The same story, with one launcher that lives."""

    def replace_the_dead(self) -> None: ...

    def lose(self, proxy: Proxy, group: int) -> None:
        with killing(lambda: list(self.launchers)):
            launcher = DeafLauncher(self, proxy, group)
            self.launchers.append(launcher)
            try:
                launcher.__enter__()
                self._tell()
            finally:
                launcher.__exit__()
        least = (
            1 if self.kind == "slot" else 2
        )  # a slot is made with three writes, handed out and renewed with one each
        assert launcher.lost >= least, "the story has several writes of the group"


@pytest.mark.parametrize(
    "kind",
    ["annealed", "stock", pytest.param("launch", marks=pytest.mark.long), pytest.param("slot", marks=pytest.mark.long)],
)
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_launcher_that_loses_answers_to_its_writes_makes_one_machine_and_goes_on(
    launchers: LauncherFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int, kind: str
) -> None:
    monkeypatch.setattr(upkeep, "GRACE_SECONDS", 0.2)
    folder = tmp_path / "clouds" / "north"
    folder.mkdir(parents=True)
    with Proxy(*launchers.server.ports) as proxy:
        LostAnswerStory(launchers, folder, 0, kind).lose(proxy, group)
