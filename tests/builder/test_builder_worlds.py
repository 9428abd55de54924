"""Builders that meet another world, or their own double. Real builders, whose session is two seconds."""

from __future__ import annotations

import os
import shutil
import time

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.records import Create, Daemon, Delete, Json, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.testing.zookeeper.server import Server, init
from tests.builder.fleet_of_builders import Builder, BuilderFleet

HOUR = 3600.0


def files(builder: Builder) -> dict[str, tuple[int, bytes]]:
    """What lies in its images-dir: inodes and content."""
    return {path.name: (path.stat().st_ino, path.read_bytes()) for path in builder.images.iterdir() if path.is_file()}


def grown_old(builder: Builder) -> None:
    """All its files look as if nobody had touched them for days."""
    for path in builder.images.iterdir():
        os.utime(path, (time.time() - 10 * 86400,) * 2)


def two_ready(builders: BuilderFleet, **settings: Json) -> Builder:
    """A stopped builder with two READY builds of jammy."""
    with builders.builder(builders.image("jammy"), **settings) as builder:
        builders.until_ready("jammy", 1)
        builders.request("jammy")
        builders.until_ready("jammy", 2)
    return builder


def elsewhere(builders: BuilderFleet, builder: Builder, chroot: str) -> None:
    """Send it to another chroot from its next start on."""
    builder.config.write_text(builder.config.read_text().replace(builders.chroot, chroot))


def test_a_builder_that_is_sent_to_another_cluster_touches_nothing_and_is_well_when_it_is_back(
    builders: BuilderFleet, zookeeper: Server, chroot: str
) -> None:
    builder = two_ready(builders, orphan_grace_seconds=0.1)
    grown_old(builder)
    before, right = files(builder), builder.config.read_text()
    other = init(ZooKeeperSettings(hosts=f"{zookeeper.hosts}{chroot}-typo"))
    elsewhere(builders, builder, f"{chroot}-typo")
    assert builder.begin().wait(60.0) == 9
    last = builder.said.splitlines()[-1]
    for part in (str(builder.images), "correct zookeeper.hosts", "cluster_id.txt"):
        assert part in last
    with Session(other) as session:
        assert not session.children(paths.daemons("builder"))
        assert not session.children(paths.IMAGES)
    assert files(builder) == before
    builder.config.write_text(right)
    builder.start()
    assert len(builders.view("jammy").ready()) == 2
    assert files(builder) == before


def test_a_directory_that_is_adopted_by_a_rebuilt_cluster_loses_nothing_at_once(
    builders: BuilderFleet, chroot: str
) -> None:
    builder = two_ready(builders, orphan_grace_seconds=HOUR)
    grown_old(builder)
    before = {name: each for name, each in files(builder).items() if name.startswith("jammy-")}
    forget(builders.session, "/ocb")
    forget(builders.session, "/nodepool")
    init(ZooKeeperSettings(hosts=builders.server.hosts + chroot))
    assert builder.begin().wait(60.0) == 9
    (builder.images / "cluster_id.txt").unlink()
    builder.start()
    (ready,) = builders.until_ready("jammy", 1)
    assert ready.id > "0000000002"
    builders.until(lambda: "have no record" in builder.said, "the builder says what it will remove")
    assert before.items() <= files(builder).items()


@pytest.mark.long
def test_a_record_that_is_gone_costs_its_file_only_after_the_grace_from_when_that_was_seen(
    builders: BuilderFleet,
) -> None:
    builder = two_ready(builders, orphan_grace_seconds=6.0)
    grown_old(builder)
    builders.session.commit(removal(builders.session, paths.build("jammy", "0000000001")))
    builder.start()
    builders.until(lambda: "have no record" in builder.said, "it is seen")
    assert (builder.images / "jammy-0000000001.raw").exists()
    builders.until(lambda: not (builder.images / "jammy-0000000001.raw").exists(), "the grace is over")
    assert (builder.images / "jammy-0000000002.raw").exists()


# -- the same id twice --


def copied(builders: BuilderFleet, builder: Builder, *images: dict[str, Json]) -> Builder:
    """Another builder, whose directory is a copy of this one's as it is now."""
    clone = builders.builder(*images)
    shutil.copytree(builder.images, clone.images, ignore=shutil.ignore_patterns(".lock"))
    return clone


def registered(builders: BuilderFleet, builder: Builder) -> Daemon | None:
    znode = builders.session.get(paths.daemon("builder", builder.id))
    return None if znode is None else codec.decode(Daemon, znode)


def test_a_second_builder_with_the_same_id_waits_then_ends_and_does_nothing(builders: BuilderFleet) -> None:
    image, provider = builders.image("jammy"), builders.provider("west", "jammy")
    first = builders.builder(image, providers=[provider]).start()
    clone = copied(builders, first, image)
    builders.configure(clone, image, providers=[provider, builders.provider("east", "jammy")])
    builders.until_ready("jammy", 1)
    clone.begin()
    builders.until(lambda: "remove" in clone.said, "it says what to do")
    assert not clone.ready()
    assert clone.wait(60.0) == 4
    assert f"remove {clone.images}/builder_id.txt" in clone.said.splitlines()[-1]
    assert (registered(builders, first) or first).pid == first.pid
    assert [build.record.state for build in builders.builds("jammy")] == [BuildState.READY]
    (clone.images / "builder_id.txt").unlink()
    clone.start()
    assert clone.id != first.id


def test_a_refused_builder_that_is_stopped_leaves_the_other_registered_as_it_was(builders: BuilderFleet) -> None:
    first = builders.builder(builders.image("jammy")).start()
    clone = copied(builders, first, builders.image("jammy"))
    before = registered(builders, first)
    clone.begin()
    builders.until(lambda: "remove" in clone.said, "it says what to do")
    clone.terminate()
    assert clone.wait(60.0) == 0
    assert registered(builders, first) == before


def test_a_builder_that_was_killed_comes_up_by_itself_when_its_old_session_is_over(builders: BuilderFleet) -> None:
    builder = builders.builder(builders.image("jammy"), session_seconds=6.0).start()
    builder.kill()
    assert registered(builders, builder) is not None
    builder.start()  # raises if that process ends
    assert (registered(builders, builder) or builder).pid == builder.pid
    builders.until_ready("jammy", 1)


def test_what_a_copy_of_the_directory_lacks_is_no_failure(builders: BuilderFleet) -> None:
    image = builders.image("jammy")
    first = builders.builder(image).start()
    clone = copied(builders, first, image)
    builders.until_ready("jammy", 1)
    first.close()
    shutil.rmtree(clone.images / "builds", ignore_errors=True)  # as they were before the build
    for path in clone.images.glob("jammy-*"):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    builders.configure(clone, image, providers=[builders.provider("west", "jammy")])
    clone.start()
    builders.until(lambda: "is not here: jammy-0000000001 was built on" in clone.said, "it says so")
    assert [build.record.state for build in builders.builds("jammy")] == [BuildState.READY]
    assert builders.uploads("jammy") == []
    clone.close()
    builders.configure(first, image, providers=[builders.provider("west", "jammy")])
    first.start()
    builders.until(lambda: builders.provided("west"), "the one that has the file sends it")


def test_what_was_built_here_and_is_gone_is_a_failure(builders: BuilderFleet) -> None:
    with builders.builder(builders.image("jammy")) as builder:
        builders.until_ready("jammy", 1)
    (builder.images / "jammy-0000000001.raw").unlink()
    builders.configure(builder, builders.image("jammy"), providers=[builders.provider("west", "jammy")])
    builder.start()
    builders.until(lambda: builders.provided("west"), "it is built again and sent")
    assert builders.view("jammy").build("0000000001").record.state is BuildState.FAILED  # type: ignore[union-attr]


def test_a_build_of_another_hosts_name_is_no_failure_either(builders: BuilderFleet) -> None:
    with builders.builder(builders.image("jammy")) as builder:
        builders.until_ready("jammy", 1)
    (builder.images / "jammy-0000000001.raw").unlink()
    build = builders.builds("jammy")[0]
    record = replace(build.record, builder="elsewhere.example.com")
    builders.session.commit([Set(paths.build("jammy", build.id), record, build.version)])
    builders.configure(builder, builders.image("jammy"), providers=[builders.provider("west", "jammy")])
    builder.start()
    builders.until(lambda: "was built on elsewhere.example.com" in builder.said, "it says so")
    assert [build.record.state for build in builders.builds("jammy")] == [BuildState.READY]


def forget(session: Session, path: str) -> None:
    """A znode and all below it."""
    for name in session.children(path) or ():
        forget(session, f"{path}/{name}")
    znode = session.get(path)
    if znode is not None:
        session.commit([Delete(path, znode.version)])


def test_a_build_under_way_takes_nothing_of_another_cluster_with_it(builders: BuilderFleet, chroot: str) -> None:
    image = builders.image("jammy", 120.0)
    builder = builders.builder(image).start()
    builders.until(builders.history, "it is being built")
    builder.freeze()
    builders.until(lambda: registered(builders, builder) is None, "its session is over")
    forget(builders.session, "/ocb")
    forget(builders.session, "/nodepool")
    init(ZooKeeperSettings(hosts=builders.server.hosts + chroot))
    path = paths.build("jammy", "0000000001")
    theirs = Build(builder="b", builder_id="b", filename="x", state=BuildState.READY, state_time=time.time())
    builders.session.ensure(paths.builds("jammy"))
    builders.session.commit([Create(path, theirs)])
    builder.thaw()
    assert builder.wait(60.0) == 9
    znode = builders.session.get(path)
    assert znode is not None
    assert codec.decode(Build, znode) == theirs
