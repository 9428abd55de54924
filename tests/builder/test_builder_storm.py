"""Storms over builders: killed, frozen, cut off, ZooKeeper restarted; what they promise holds all the time, and at the end."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from yard import SESSION_SECONDS, Yard, spoiled

from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model import BuildState, UploadState
from nodepool_ocb.store import images
from nodepool_ocb.testing.storm import Storm
from nodepool_ocb.testing.zookeeper import Server

IMAGES = ("jammy", "noble", "bookworm")
CLOUDS = ("north", "south")
KEEP = 2
CALM_SECONDS = 60.0


class Watch:
    """Looks at the records all the time, and asks for a build now and then."""

    def __init__(self, yard: Yard, seed: int) -> None:
        self._yard = yard
        self._chance = random.Random(seed)
        self._ever: dict[str, dict[str, int]] = defaultdict(dict)  # image → builds seen ready → the request of each
        self.requests: dict[str, set[int]] = defaultdict(set)  # image → the requests seen
        self.faults: list[str] = []

    def look(self) -> None:
        """Whatever ZooKeeper says now must be right now."""
        try:
            views = images.read(self._yard.session, IMAGES)
        except Unavailable:
            return  # it is part of the storm
        for name, view in views.items():
            building = [build.id for build in view.builds if build.record.state is BuildState.BUILDING]
            if len(building) > 1:
                self.faults.append(f"{name}: {building} are building at once")
            ready = view.ready()
            self._ever[name].update({build.id: build.record.request for build in ready})
            if len(ready) < min(KEEP, len(self._ever[name])):
                self.faults.append(f"{name}: only {[build.id for build in ready]} of {[*self._ever[name]]} are ready")
            if view.request is not None:
                self.requests[name].add(view.request.mzxid)

    def ask(self) -> None:
        """Request an image that nobody has requested."""
        name = self._chance.choice(IMAGES)
        try:
            if self._yard.view(name).request is None:
                self._yard.request(name)
        except Unavailable:
            pass

    def unanswered(self) -> list[str]:
        """Requests that led to no ready build, or to several."""
        return [
            f"{name}: {count} builds for request {request}"
            for name, requests in self.requests.items()
            for request in requests
            if (count := Counter(self._ever[name].values())[request]) != 1
        ]


def misplaced(yard: Yard) -> list[str]:
    """Files without a record, and uploads that are not where they are said to be, or where nobody says."""
    found = []
    recorded = {f"{name}-{build.id}" for name in IMAGES for build in yard.builds(name)}
    for builder in yard.builders:
        found += [name for name in builder.files() if name.partition(".")[0] not in recorded]
    for cloud in CLOUDS:
        said = {
            upload.record.external_id
            for name in IMAGES
            for build in yard.builds(name)
            for upload in build.uploads
            if upload.provider == cloud and upload.record.state is UploadState.READY
        }
        there = set(yard.provided(cloud))
        found += [f"{cloud}: {name}" for name in sorted(said ^ there, key=str)]
    return found


@pytest.mark.parametrize(
    ("seconds", "every_seconds"),
    [pytest.param(25.0, 1.5, id="short"), pytest.param(300.0, 3.0, id="long", marks=pytest.mark.long)],
)
def test_after_a_storm_every_promise_of_the_builders_holds(
    chroot: str, tmp_path: Path, seconds: float, every_seconds: float
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    with Server(fsync=False) as server, Yard(server, chroot, tmp_path) as yard:
        diskimages = [yard.image(name, 0.5 + index, ("raw", "tar")) for index, name in enumerate(IMAGES)]
        providers = [yard.provider(cloud, *IMAGES, format="raw") for cloud in CLOUDS]
        for _ in range(2):
            yard.builder(*diskimages, providers=providers, build_workers=2, leak_seconds=2.0).begin()
        watch = Watch(yard, seed)
        asked = began = time.monotonic()

        def meanwhile() -> None:
            nonlocal asked
            for builder in yard.builders:
                builder.begin_again()
            watch.look()
            if time.monotonic() > asked + 2.0 and time.monotonic() < began + seconds:
                asked = time.monotonic()
                watch.ask()

        storm = Storm(yard.builders, server, seed, lasts=(0.2, 1.0, SESSION_SECONDS + 1.5))
        storm.blow(seconds, every_seconds, meanwhile)

        def calm() -> bool:
            meanwhile()
            try:
                return (
                    all(yard.view(name).request is None for name in IMAGES)
                    and not any(yard.builds(name, BuildState.BUILDING, BuildState.ABORTED) for name in IMAGES)
                    and not misplaced(yard)
                )
            except Unavailable:
                return False

        yard.until(calm, "nothing is left to be done", CALM_SECONDS)
        watch.look()  # what came to its end since it last looked
        print(f"{dict(storm.faults)}, {len(yard.history())} builds begun, {len(yard.history('end'))} made")
        assert all(builder.running() for builder in yard.builders), "nobody gave up"
        assert not watch.faults
        assert not watch.unanswered()
        assert not spoiled(yard)
