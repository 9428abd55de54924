"""Storms over builders: killed, frozen, cut off, their disks full or read-only, ZooKeeper's servers killed, frozen or cut off;
no thread of theirs starts, another writer comes between them and a lost answer; their clocks are hours apart, their formats
differ, records turn unreadable for a while, and two providers share a cloud.
What they promise holds all the time, and at the end.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.store import images
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.clocks import skewed
from nodepool_ocb.testing.disks import SmallDisk, mountable
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.storm import Fault, Mend, Storm, duration, overtake, seeded
from nodepool_ocb.testing.troubles import Unreadable
from nodepool_ocb.testing.zookeeper.ensemble import Ensemble
from tests.builder.fleet_of_builders import SESSION_SECONDS, BuilderFleet, spoiled
from tests.journeys.storms import LAUNCHER, Servers, alone, can_fail, host_faults

IMAGES = ("jammy", "noble", "bookworm")
CLOUDS = {"north": "north", "south": "south", "west": "south"}  # provider → where its images lie
HOURS = (0.0, 3.0)  # the builders' clocks are so far ahead
FORMATS = (("raw", "tar"), ("raw", "qcow2"))  # and what they make differs
KEEP = 2
CALM_SECONDS = 180.0


class Watch:
    """Looks at the records all the time, and asks for a build now and then."""

    def __init__(self, builders: BuilderFleet, seed: int, spoiling: Unreadable) -> None:
        self._builders = builders
        self._spoiling = spoiling
        self._chance = random.Random(seed)
        self._ever: dict[str, dict[str, int]] = defaultdict(dict)  # image → builds seen ready → the request of each
        self.requests: dict[str, set[int]] = defaultdict(set)  # image → the requests seen
        self.faults: list[str] = []

    def look(self) -> None:
        """Whatever ZooKeeper says now must be right now."""
        spoiled, unread = self._spoiling.times, dict[str, str]()
        try:
            views = images.read(self._builders.session, IMAGES, unread)
        except Unavailable:
            return  # it is part of the storm
        # a build may be replaced before the spoiled records beside it are mended
        for name, view in views.items():
            self._ever[name].update({build.id: build.record.request for build in view.ready()})
        if unread or self._spoiling.spoiled or self._spoiling.times != spoiled:
            return  # what is spoiled now is not seen
        for name, view in views.items():
            building = [
                build.id
                for build in view.builds  # nobody could say of one that was spoiled that its builder had died
                if build.record.state is BuildState.BUILDING and paths.build(name, build.id) not in self._spoiling.ever
            ]
            if len(building) > 1:
                self.faults.append(f"{name}: {building} are building at once")
            ready = view.ready()
            if len(ready) < min(KEEP, len(self._ever[name])):
                self.faults.append(f"{name}: only {[build.id for build in ready]} of {[*self._ever[name]]} are ready")
            if view.request is not None:
                self.requests[name].add(view.request.mzxid)

    def ask(self) -> None:
        """Request an image that nobody has requested."""
        name = self._chance.choice(IMAGES)
        try:
            if self._builders.view(name).request is None:
                self._builders.request(name)
        except Unavailable:
            pass

    def unanswered(self) -> list[str]:
        """Requests that led to no ready build, or to several."""
        return [
            f"{name}: {count} builds for request {request}; seen ready, with their requests: {self._ever[name]}"
            for name, requests in self.requests.items()
            for request in requests
            if (count := Counter(self._ever[name].values())[request]) != 1
        ]


def records(session: Session) -> list[str]:
    """The paths of whatever may turn unreadable: builds and uploads."""
    views = images.read(session, IMAGES)
    builds = [(name, build) for name, view in views.items() for build in view.builds]
    uploads = [paths.upload(name, each.id, one.provider, one.id) for name, each in builds for one in each.uploads]
    return [*(paths.build(name, build.id) for name, build in builds), *uploads]


def disks_fail(disks: Mapping[Path, SmallDisk]) -> list[Fault]:
    """What may happen to the disks of a builder's images and of its builds' logs; ``disks`` are by their folders."""

    def fault(name: str, begin: Callable[[SmallDisk], None], end: Callable[[SmallDisk], None], of: str) -> Fault:
        def disk_fails(builder: CutDaemon) -> Mend:
            disk = disks[getattr(builder, of)]
            begin(disk)
            return partial(end, disk)

        disk_fails.__name__ = f"{of}_{name}"
        return disk_fails

    kinds = [("full", SmallDisk.fill, SmallDisk.free), ("read_only", SmallDisk.read_only, SmallDisk.writable)]
    return [fault(*kind, of) for kind in kinds for of in ("images", "logs")]


def missing(builders: BuilderFleet) -> list[str]:
    """Providers that do not have the newest build of an image."""
    newest = [(name, ready[0]) for name in IMAGES if (ready := builders.view(name).ready())]
    return [
        f"{name} at {provider}"
        for name, build in newest
        for provider in CLOUDS
        if not any(each.provider == provider and each.record.state is UploadState.READY for each in build.uploads)
    ]


def misplaced(builders: BuilderFleet) -> list[str]:
    """Files without a record, and uploads that are not where they are said to be, or where nobody says."""
    found = []
    recorded = {f"{name}-{build.id}" for name in IMAGES for build in builders.builds(name)}
    for builder in builders.builders:
        found += [name for name in builder.files() if name.partition(".")[0] not in recorded]
    for cloud in set(CLOUDS.values()):
        said = {
            upload.record.external_id
            for name in IMAGES
            for build in builders.builds(name)
            for upload in build.uploads
            if CLOUDS[upload.provider] == cloud and upload.record.state is UploadState.READY
        }
        there = set(builders.provided(cloud))
        found += [f"{cloud}: {name}" for name in sorted(said ^ there, key=str)]
    return found


@pytest.mark.parametrize(
    ("servers", "seconds", "every_seconds"),
    [
        pytest.param(alone, 8.0, 1.0, id="short"),
        pytest.param(alone, 300.0, 3.0, id="long", marks=pytest.mark.long),
        pytest.param(Ensemble, 300.0, 3.0, id="long-ensemble", marks=pytest.mark.long),
    ],
)
def test_after_a_storm_every_promise_of_the_builders_holds(
    chroot: str, tmp_path: Path, servers: Servers, seconds: float, every_seconds: float
) -> None:
    seed, seconds = seeded(), duration(seconds)
    print(f"seed {seed}")
    with ExitStack() as mounted, servers() as server, BuilderFleet(server, chroot, tmp_path) as builders:
        disks: dict[Path, SmallDisk] = {}
        providers = [
            builders.provider(name, *IMAGES, format="raw", directory=str(tmp_path / "providers" / cloud))
            for name, cloud in CLOUDS.items()
        ]
        for hours, formats in zip(HOURS, FORMATS, strict=True):
            diskimages = [builders.image(name, 0.5 + index, formats) for index, name in enumerate(IMAGES)]
            builder = builders.builder(
                *diskimages, providers=providers, build_workers=2, leak_seconds=2.0, logs_apart=True, launcher=LAUNCHER
            )
            can_fail(builder, "builder")
            builder.environment |= skewed(hours * 3600) if hours else {}
            if mountable():
                for folder in (builder.images, builder.logs):
                    disks[folder] = mounted.enter_context(SmallDisk(folder, 4 << 20))
            builder.begin()
        spoiling = Unreadable(builders.settings(5.0), seed, records)
        watch = Watch(builders, seed, spoiling)
        asked = began = time.monotonic()

        def meanwhile() -> None:
            nonlocal asked
            for builder in builders.builders:
                builder.begin_again()
            watch.look()
            if time.monotonic() > asked + 2.0 and time.monotonic() < began + seconds:
                asked = time.monotonic()
                watch.ask()

        more = [*host_faults(seed), overtake(builders.settings(5.0), records, seed)]
        more += disks_fail(disks) if disks else []
        storm = Storm(builders.builders, server, seed, lasts=(0.2, 1.0, SESSION_SECONDS + 1.5), more=more)
        with spoiling:
            storm.blow(seconds, every_seconds, meanwhile)

        left: list[str] = []

        def calm() -> bool:
            meanwhile()
            with suppress(Unavailable):
                left[:] = unfinished(builders)
                return not left
            return False

        try:
            builders.until(calm, "nothing is left to be done", CALM_SECONDS)
        except AssertionError as late:
            raise AssertionError(f"{late}, but {left}; seen before: {watch.faults}") from None
        watch.look()  # what came to its end since it last looked
        made = f"{len(builders.history())} builds begun, {len(builders.history('end'))} made"
        print(f"{dict(storm.faults)}, {spoiling.times} records spoiled, {made}")
        assert all(builder.running() for builder in builders.builders), "nobody gave up"
        assert not watch.faults
        assert not watch.unanswered()
        assert not spoiled(builders)
        assert not begun_again(builders)


def unfinished(builders: BuilderFleet) -> list[str]:
    """What the builders still have to do."""
    views = {name: builders.view(name) for name in IMAGES}
    return [
        *(f"{name}: a request" for name, view in views.items() if view.request is not None),
        *(f"{name}-{build.id} is {build.record.state}" for name, view in views.items() for build in view.builds
          if build.record.state in (BuildState.BUILDING, BuildState.ABORTED)),
        *missing(builders),
        *(f"{name}: no build has {formats}" for name, view in views.items() for formats in FORMATS
          if not view.newest(formats)),
        *misplaced(builders),
    ]  # fmt: skip


def begun_again(builders: BuilderFleet) -> list[str]:
    """The builds that begin though nobody asks for any: builders that differ want nothing more of each other."""
    before = len(builders.history())
    sweeps = [builder.metric("nodepool_ocb_sweeps_total") for builder in builders.builders]
    for builder, swept in zip(builders.builders, sweeps, strict=True):
        builders.until(lambda: builder.metric("nodepool_ocb_sweeps_total") >= swept + 2, "two more looks", 60.0)  # noqa: B023
    return builders.history()[before:]
