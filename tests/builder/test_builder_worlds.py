"""Builders that meet another world, or their own double. Real builders, whose session is two seconds."""

from __future__ import annotations

import os
import shutil
import time

from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Build, BuildState, Create, Daemon, Delete, Json, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.testing.zookeeper.server import Server, init
from tests.builder.fleet_of_builders import Builder, Yard

HOUR = 3600.0


def files(builder: Builder) -> dict[str, tuple[int, bytes]]:
    """What lies in its images-dir: inodes and content."""
    return {path.name: (path.stat().st_ino, path.read_bytes()) for path in builder.images.iterdir() if path.is_file()}


def grown_old(builder: Builder) -> None:
    """All its files look as if nobody had touched them for days."""
    for path in builder.images.iterdir():
        os.utime(path, (time.time() - 10 * 86400,) * 2)


def two_ready(yard: Yard, **settings: Json) -> Builder:
    """A stopped builder with two READY builds of jammy."""
    with yard.builder(yard.image("jammy"), **settings) as builder:
        yard.until_ready("jammy", 1)
        yard.request("jammy")
        yard.until_ready("jammy", 2)
    return builder


def elsewhere(yard: Yard, builder: Builder, chroot: str) -> None:
    """Send it to another chroot from its next start on."""
    builder.config.write_text(builder.config.read_text().replace(yard.chroot, chroot))


def test_a_builder_that_is_sent_to_another_cluster_touches_nothing_and_is_well_when_it_is_back(
    yard: Yard, zookeeper: Server, chroot: str
) -> None:
    builder = two_ready(yard, orphan_grace_seconds=0.1)
    grown_old(builder)
    before, right = files(builder), builder.config.read_text()
    other = init(ZooKeeperSettings(hosts=f"{zookeeper.hosts}{chroot}-typo"))
    elsewhere(yard, builder, f"{chroot}-typo")
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
    assert len(yard.view("jammy").ready()) == 2
    assert files(builder) == before


def test_a_directory_that_is_adopted_by_a_rebuilt_cluster_loses_nothing_at_once(yard: Yard, chroot: str) -> None:
    builder = two_ready(yard, orphan_grace_seconds=HOUR)
    grown_old(builder)
    before = {name: each for name, each in files(builder).items() if name.startswith("jammy-")}
    forget(yard.session, "/ocb")
    forget(yard.session, "/nodepool")
    init(ZooKeeperSettings(hosts=yard.server.hosts + chroot))
    assert builder.begin().wait(60.0) == 9
    (builder.images / "cluster_id.txt").unlink()
    builder.start()
    (ready,) = yard.until_ready("jammy", 1)
    assert ready.id > "0000000002"
    yard.until(lambda: "have no record" in builder.said, "the builder says what it will remove")
    assert before.items() <= files(builder).items()


def test_a_record_that_is_gone_costs_its_file_only_after_the_grace_from_when_that_was_seen(yard: Yard) -> None:
    builder = two_ready(yard, orphan_grace_seconds=6.0)
    grown_old(builder)
    yard.session.commit(removal(yard.session, paths.build("jammy", "0000000001")))
    builder.start()
    yard.until(lambda: "have no record" in builder.said, "it is seen")
    assert (builder.images / "jammy-0000000001.raw").exists()
    yard.until(lambda: not (builder.images / "jammy-0000000001.raw").exists(), "the grace is over")
    assert (builder.images / "jammy-0000000002.raw").exists()


# -- the same id twice --


def copied(yard: Yard, builder: Builder, *images: dict[str, Json]) -> Builder:
    """Another builder, whose directory is a copy of this one's as it is now."""
    clone = yard.builder(*images)
    shutil.copytree(builder.images, clone.images, ignore=shutil.ignore_patterns(".lock"))
    return clone


def registered(yard: Yard, builder: Builder) -> Daemon | None:
    znode = yard.session.get(paths.daemon("builder", builder.id))
    return None if znode is None else codec.decode(Daemon, znode)


def test_a_second_builder_with_the_same_id_waits_then_ends_and_does_nothing(yard: Yard) -> None:
    image, provider = yard.image("jammy"), yard.provider("west", "jammy")
    first = yard.builder(image, providers=[provider]).start()
    clone = copied(yard, first, image)
    yard.configure(clone, image, providers=[provider, yard.provider("east", "jammy")])
    yard.until_ready("jammy", 1)
    clone.begin()
    yard.until(lambda: "remove" in clone.said, "it says what to do")
    assert not clone.ready()
    assert clone.wait(60.0) == 4
    assert f"remove {clone.images}/builder_id.txt" in clone.said.splitlines()[-1]
    assert (registered(yard, first) or first).pid == first.pid
    assert [build.record.state for build in yard.builds("jammy")] == [BuildState.READY]
    (clone.images / "builder_id.txt").unlink()
    clone.start()
    assert clone.id != first.id


def test_a_refused_builder_that_is_stopped_leaves_the_other_registered_as_it_was(yard: Yard) -> None:
    first = yard.builder(yard.image("jammy")).start()
    clone = copied(yard, first, yard.image("jammy"))
    before = registered(yard, first)
    clone.begin()
    yard.until(lambda: "remove" in clone.said, "it says what to do")
    clone.terminate()
    assert clone.wait(60.0) == 0
    assert registered(yard, first) == before


def test_a_builder_that_was_killed_comes_up_by_itself_when_its_old_session_is_over(yard: Yard) -> None:
    builder = yard.builder(yard.image("jammy"), session_seconds=6.0).start()
    builder.kill()
    assert registered(yard, builder) is not None
    builder.start()  # raises if that process ends
    assert (registered(yard, builder) or builder).pid == builder.pid
    yard.until_ready("jammy", 1)


def test_what_a_copy_of_the_directory_lacks_is_no_failure(yard: Yard) -> None:
    image = yard.image("jammy")
    first = yard.builder(image).start()
    clone = copied(yard, first, image)
    yard.until_ready("jammy", 1)
    first.close()
    shutil.rmtree(clone.images / "builds", ignore_errors=True)  # as they were before the build
    for path in clone.images.glob("jammy-*"):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    yard.configure(clone, image, providers=[yard.provider("west", "jammy")])
    clone.start()
    yard.until(lambda: "is not here: jammy-0000000001 was built on" in clone.said, "it says so")
    assert [build.record.state for build in yard.builds("jammy")] == [BuildState.READY]
    assert yard.uploads("jammy") == []
    clone.close()
    yard.configure(first, image, providers=[yard.provider("west", "jammy")])
    first.start()
    yard.until(lambda: yard.provided("west"), "the one that has the file sends it")


def test_what_was_built_here_and_is_gone_is_a_failure(yard: Yard) -> None:
    with yard.builder(yard.image("jammy")) as builder:
        yard.until_ready("jammy", 1)
    (builder.images / "jammy-0000000001.raw").unlink()
    yard.configure(builder, yard.image("jammy"), providers=[yard.provider("west", "jammy")])
    builder.start()
    yard.until(lambda: yard.provided("west"), "it is built again and sent")
    assert yard.view("jammy").build("0000000001").record.state is BuildState.FAILED  # type: ignore[union-attr]


def test_a_build_of_another_hosts_name_is_no_failure_either(yard: Yard) -> None:
    with yard.builder(yard.image("jammy")) as builder:
        yard.until_ready("jammy", 1)
    (builder.images / "jammy-0000000001.raw").unlink()
    build = yard.builds("jammy")[0]
    record = replace(build.record, builder="elsewhere.example.com")
    yard.session.commit([Set(paths.build("jammy", build.id), record, build.version)])
    yard.configure(builder, yard.image("jammy"), providers=[yard.provider("west", "jammy")])
    builder.start()
    yard.until(lambda: "was built on elsewhere.example.com" in builder.said, "it says so")
    assert [build.record.state for build in yard.builds("jammy")] == [BuildState.READY]


def forget(session: Session, path: str) -> None:
    """A znode and all below it."""
    for name in session.children(path) or ():
        forget(session, f"{path}/{name}")
    znode = session.get(path)
    if znode is not None:
        session.commit([Delete(path, znode.version)])


def test_a_build_under_way_takes_nothing_of_another_cluster_with_it(yard: Yard, chroot: str) -> None:
    image = yard.image("jammy", 120.0)
    builder = yard.builder(image).start()
    yard.until(yard.history, "it is being built")
    builder.freeze()
    yard.until(lambda: registered(yard, builder) is None, "its session is over")
    forget(yard.session, "/ocb")
    forget(yard.session, "/nodepool")
    init(ZooKeeperSettings(hosts=yard.server.hosts + chroot))
    path = paths.build("jammy", "0000000001")
    theirs = Build(builder="b", builder_id="b", filename="x", state=BuildState.READY, state_time=time.time())
    yard.session.ensure(paths.builds("jammy"))
    yard.session.commit([Create(path, theirs)])
    builder.thaw()
    assert builder.wait(60.0) == 9
    znode = yard.session.get(path)
    assert znode is not None
    assert codec.decode(Build, znode) == theirs
