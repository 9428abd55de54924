"""A launcher that is killed around any request to its container engine leaves one container or none, and none in the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Cluster
from nodepool_ocb.pool.configuration import LaunchProvider, PoolConfiguration, PoolLabel, PoolLabelPolicy, ProviderPool
from nodepool_ocb.pool.idle import upkeep
from nodepool_ocb.store.client import codec
from nodepool_ocb.testing.engine import Engine
from tests.launcher.killed_dockers import Dock, KilledDocker, killing_at_requests
from tests.launcher.launcher_fleet import LauncherFleet
from tests.launcher.test_killed_launchers import KillStory

GROUPS: Final = 4  # of moments: each test has every fourth
#: Some of the moments, of which one is told in each run of the tests.
CREATED: Final = "after POST /containers/create"


def configuration(engine: Engine, network: str, image: str) -> PoolConfiguration:
    """One label of containers, with host keys to be gathered."""
    label = PoolLabel(name="small", options={"image-name": image})
    pool = ProviderPool(name="main", provider="north", labels={"small": label}, options={"network": network})
    north = LaunchProvider(name="north", driver="docker", pools={"main": pool}, options={"url": engine.url})
    policy = PoolLabelPolicy(name="small", annealed=False)
    return PoolConfiguration(labels={"small": policy}, providers={"north": north})


class DockStory(KillStory):
    """The same story with containers."""

    def __init__(
        self, fleet: LauncherFleet, made: PoolConfiguration, dock: Dock, moment: int, last: str | None
    ) -> None:
        super().__init__(fleet, Path(), moment, "launch")
        self.configuration, self._dock, self._last = made, dock, last

    def launcher(self, moment: int) -> KilledDocker:
        made = KilledDocker(self.settings, self.configuration, moment)
        made.last = None if self.launchers else self._last
        return made

    def machines(self) -> int:
        assert self._dock.most <= 1, "no node has two containers"
        return len(self._dock.present)

    def counted(self) -> int:
        return len(self._dock.containers())

    def play(self) -> bool:
        """Whether the launcher died; then there is one container or none at any time, and one more at most in all."""
        before = self._dock.made
        with killing_at_requests(lambda: [each for each in self.launchers if isinstance(each, KilledDocker)]):
            died = self.run()
        assert self._dock.made - before <= 2
        return died


@pytest.fixture
def dock(launchers: LauncherFleet, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dock]:
    monkeypatch.setattr(upkeep, "GRACE_SECONDS", 0.2)
    znode = launchers.session.get(paths.CLUSTER)
    assert znode is not None
    with Dock(engine, codec.decode(Cluster, znode).id) as dock:
        yield dock


def test_a_launcher_killed_between_creation_and_start_of_a_container_leaves_it_to_its_successor(
    launchers: LauncherFleet, engine: Engine, network: str, image: str, dock: Dock
) -> None:
    story = DockStory(launchers, configuration(engine, network, image), dock, 0, CREATED)
    assert story.play()
    assert (dock.made, dock.most) == (1, 1)


@pytest.mark.long
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_launcher_killed_around_any_request_to_the_engine_leaves_one_container_or_none(
    launchers: LauncherFleet, engine: Engine, network: str, image: str, dock: Dock, group: int
) -> None:
    made = configuration(engine, network, image)
    met: set[str] = set()
    for moment in range(group + 1, 200, GROUPS):
        story = DockStory(launchers, made, dock, moment, None)
        died = story.play()
        met |= {name.split(" ")[1] for name in story.launchers[0].moments}
        if not died:
            break
        assert not launchers.nodes()
    else:
        pytest.fail("the story never ends")
    assert met >= {"POST", "GET", "DELETE", "the"}
