"""Images as views: whatever stands in ZooKeeper, whoever wrote it, and however the events came."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import OcbError, Unavailable
from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildRequest, BuildState, Pause, Upload, UploadState
from nodepool_ocb.model.records import Create, Delete, LockOwner, Set
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.images import ImageCache, names, read
from nodepool_ocb.store.locks import Locks
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server
from tests.store.interrupted_session import InterruptedSession

Until = Callable[..., None]
Connect = Callable[..., Session]

ME = LockOwner(daemon="builder", host="h", pid=1, purpose="build", since=1.0)
READY = BuildState.READY


@pytest.fixture
def session(zk_session: Session) -> Session:
    zk_session.ensure(paths.IMAGES)
    return zk_session


def build_record(state: BuildState = READY, **fields: Any) -> Build:
    known = {"builder": "h", "builder_id": "b1", "filename": "f", "state_time": 1.0, "formats": ("qcow2",)}
    return Build(**{**known, **fields}, state=state)


def add_build(session: Session, image: str, state: BuildState = READY, **fields: Any) -> str:
    session.ensure(paths.builds(image))
    return session.create_next(paths.builds(image) + "/", build_record(state, **fields)).rpartition("/")[2]


def add_upload(session: Session, image: str, build: str, provider: str, state: UploadState = UploadState.READY) -> str:
    folder = paths.uploads(image, build, provider)
    session.ensure(folder)
    record = Upload(state=state, state_time=1.0, format="qcow2")
    return session.create_next(folder + "/", record).rpartition("/")[2]


def look(session: Session, image: str) -> ImageView:
    return read(session, [image])[image]


def requests(session: Session) -> int:
    """How many requests this session's connection has sent."""
    sent: int = session._client._connection._xid
    return sent


# -- reading --


def test_an_image_is_read_whole(session: Session) -> None:
    first, second = add_build(session, "debian"), add_build(session, "debian", BuildState.BUILDING)
    ready = add_upload(session, "debian", first, "cloud-b")
    failed, sending = (
        add_upload(session, "debian", first, "cloud-a", state) for state in (UploadState.FAILED, UploadState.UPLOADING)
    )
    locks = Locks(session)
    locks.take(paths.build_lock("debian"), ME)
    locks.take(paths.upload_lock("debian", first, "cloud-a"), ME)
    session.commit(
        [
            Create(paths.request_build("debian"), BuildRequest(by="ann", reason="new kernel", at=5.0)),
            Create(paths.pause("debian"), Pause(by="bob", until=9.0)),
        ]
    )
    session.commit([Set(paths.build("debian", first), build_record(tail="x"), 0)])
    quarantined: dict[str, str] = {}
    view = read(session, ["debian", "none"], quarantined)["debian"]
    assert quarantined == {}
    assert view.holder == ME
    assert [(build.id, build.version, build.record.state) for build in view.builds] == [
        (first, 1, READY),
        (second, 0, BuildState.BUILDING),
    ]
    assert [(each.provider, each.id, each.record.state, each.locked) for each in view.builds[0].uploads] == [
        ("cloud-a", failed, UploadState.FAILED, True),
        ("cloud-a", sending, UploadState.UPLOADING, True),
        ("cloud-b", ready, UploadState.READY, False),
    ]
    assert {each.build for each in view.builds[0].uploads} == {first}
    assert view.builds[1].bare
    znode = session.get(paths.request_build("debian"))
    assert view.request is not None
    assert znode is not None
    assert (view.request.record.by, view.request.version, view.request.mzxid) == ("ann", 0, znode.mzxid)
    assert view.pause is not None
    assert [view.pause.on(8.0), view.pause.on(9.0)] == [True, False]


def test_an_image_with_nothing_below_it_and_one_that_is_not_there(session: Session) -> None:
    session.ensure(paths.image("debian"))
    assert read(session, ["debian", "none"]) == {"debian": ImageView("debian")}
    assert read(session, []) == {}
    assert names(session) == ["debian"]


def test_without_a_tree_there_are_no_images(zk_session: Session) -> None:
    assert names(zk_session) == []
    assert read(zk_session, ["debian"]) == {}


def test_builds_are_in_order_of_their_ids(session: Session) -> None:
    ids = [add_build(session, "debian") for _ in range(12)]
    assert [build.id for build in look(session, "debian").builds] == sorted(ids)
    assert [build.id for build in look(session, "debian").ready()] == sorted(ids, reverse=True)


# -- what others write --


@pytest.mark.parametrize("data", [b"", b"now", b'{"by": "ann"}', b'{"schema": 7}', b"[]", b"\xff\x00"])
def test_a_flag_is_a_flag_whatever_it_says(kazoo: KazooClient, session: Session, data: bytes) -> None:
    kazoo.create(paths.request_build("debian"), data, makepath=True)
    kazoo.create(paths.pause("debian"), data)
    view = look(session, "debian")
    assert view.request is not None
    assert view.request.record.by == ("ann" if b"ann" in data else None)
    assert view.request.mzxid > 0
    assert view.pause is not None
    assert view.pause.on(1e12)


def test_setting_a_flag_again_is_another_request(kazoo: KazooClient, session: Session) -> None:
    kazoo.create(paths.request_build("debian"), makepath=True)
    first = look(session, "debian").request
    kazoo.set(paths.request_build("debian"), b"")
    second = look(session, "debian").request
    assert first is not None
    assert second is not None
    assert (second.version, second.mzxid > first.mzxid) == (1, True)


def test_records_in_plain_json_are_read_and_their_keys_kept(kazoo: KazooClient, session: Session) -> None:
    seed = {"builder": "h", "builder_id": "b", "filename": "f", "state": "ready", "state_time": 1455137665, "note": 1}
    path = paths.build("debian", "0000000123")
    kazoo.create(path, json.dumps(seed).encode(), makepath=True)
    (build,) = look(session, "debian").builds
    assert (build.record.state_time, build.record.formats, build.record.unknown) == (1455137665.0, (), {"note": 1})
    session.commit([Set(path, build.record, build.version)])
    assert json.loads(kazoo.get(path)[0])["note"] == 1


NODEPOOL_BUILD = {
    "state": "ready", "state_time": 1.5, "builder": "h", "builder_id": "u", "formats": "qcow2,raw",
    "username": "zuul", "python_path": "auto", "shell_type": None,
}  # fmt: skip
NODEPOOL_UPLOAD = {
    "state": "ready", "state_time": 1.5, "external_id": "e", "external_name": "n", "format": "raw",
    "username": "zuul", "python_path": "auto", "shell_type": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("id", "data"),
    [
        ("0000000007", json.dumps(NODEPOOL_BUILD).encode()),
        ("8f14e45fceea4167a5a36dedd4bea254", json.dumps(NODEPOOL_BUILD).encode()),  # as Nodepool 11 names them
        ("0000000007", b""),  # what a lock whose parent was deleted makes of it
        ("0000000007", b"not JSON"),
        ("0000000007", b'{"schema": 2}'),
        ("0000000007", b"[" * 5000),
    ],
)
def test_builds_that_cannot_be_read_are_told_and_stop_nothing(
    kazoo: KazooClient, session: Session, id: str, data: bytes
) -> None:
    path = paths.build("debian", id)
    kazoo.create(path, data, makepath=True)
    kazoo.create(paths.upload("debian", id, "cloud", "0000000000"), json.dumps(NODEPOOL_UPLOAD).encode(), makepath=True)
    ours = add_build(session, "debian")
    quarantined: dict[str, str] = {}
    views = read(session, ["debian"], quarantined)
    assert [build.id for build in views["debian"].builds] == [ours]
    assert list(quarantined) == [path]
    assert path in quarantined[path]


@pytest.mark.parametrize(("name", "data"), [("0000000003", b"{}"), ("0000000003", b""), ("latest", b"{}")])
def test_uploads_that_cannot_be_read_are_told_and_their_build_stays(
    kazoo: KazooClient, session: Session, name: str, data: bytes
) -> None:
    build = add_build(session, "debian")
    ours = add_upload(session, "debian", build, "cloud-a")
    path = f"{paths.uploads('debian', build, 'cloud-b')}/{name}"
    kazoo.create(path, data, makepath=True)
    quarantined: dict[str, str] = {}
    (view,) = read(session, ["debian"], quarantined)["debian"].builds
    assert [upload.id for upload in view.uploads] == [ours]
    assert view.unread == {"cloud-b"}
    assert not view.bare
    assert list(quarantined) == [path]


def test_what_is_mended_or_deleted_is_not_quarantined_any_more(kazoo: KazooClient, session: Session) -> None:
    good = add_build(session, "debian")
    kazoo.set(paths.build("debian", good), b"")
    kazoo.create(paths.build("debian", "0000000008"), b"", makepath=True)
    kazoo.create(paths.build("ubuntu", "0000000008"), b"", makepath=True)
    quarantined: dict[str, str] = {"/elsewhere": "is not ours to forget"}
    read(session, ["debian", "ubuntu"], quarantined)
    assert len(quarantined) == 4
    kazoo.set(
        paths.build("debian", good), b'{"builder":"h","builder_id":"b","filename":"f","state":"ready","state_time":1}'
    )
    kazoo.delete(paths.build("debian", "0000000008"))
    read(session, ["debian"], quarantined)
    assert set(quarantined) == {"/elsewhere", paths.build("ubuntu", "0000000008")}
    kazoo.delete(paths.image("ubuntu"), recursive=True)
    read(session, ["ubuntu"], quarantined)
    assert set(quarantined) == {"/elsewhere"}


def test_a_record_is_no_younger_than_its_znode(session: Session) -> None:
    """It was written under a clock ten years ahead."""
    ahead = session.now() + 3650 * 86400.0
    build = add_build(session, "debian", state_time=ahead)
    folder = paths.uploads("debian", build, "cloud")
    session.ensure(folder)
    session.create_next(folder + "/", Upload(state=UploadState.FAILED, state_time=ahead, format="raw"))
    (view,) = look(session, "debian").builds
    assert abs(view.record.state_time - session.now()) < 60.0
    assert abs(view.uploads[0].record.state_time - session.now()) < 60.0


# -- what changes while it is read --


@pytest.mark.parametrize("at", range(1, 12))
def test_a_build_that_is_shown_as_to_be_deleted_and_bare_has_no_upload(
    breakable: Server, interrupted: InterruptedSession, connect: Connect, at: int
) -> None:
    other = connect(breakable)
    build = add_build(other, "debian")

    def change() -> None:
        add_upload(other, "debian", build, "cloud")
        other.commit([Set(paths.build("debian", build), build_record(BuildState.DELETE), 0)])

    interrupted.disturb, interrupted.at = change, at
    (view,) = look(interrupted, "debian").builds
    assert not (view.record.state is BuildState.DELETE and view.bare)


@pytest.mark.parametrize("at", range(1, 12))
def test_what_is_shown_as_worked_on_by_nobody_is_so_or_was_changed_meanwhile(
    breakable: Server, interrupted: InterruptedSession, connect: Connect, at: int
) -> None:
    """A builder that begins, and one that ends, while somebody reads."""
    other = connect(breakable)
    locks = Locks(other)
    other.ensure(paths.builds("begins"), paths.builds("ends"))
    ended = add_build(other, "ends", BuildState.BUILDING)
    lock = locks.take(paths.build_lock("ends"), ME)
    assert lock is not None

    def change() -> None:
        assert locks.take(paths.build_lock("begins"), ME) is not None
        add_build(other, "begins", BuildState.BUILDING)
        other.commit([Set(paths.build("ends", ended), build_record(), 0)])
        locks.release(lock)

    interrupted.disturb, interrupted.at = change, at
    for view in read(interrupted, ["begins", "ends"]).values():
        for build in view.builds:
            if build.record.state is BuildState.BUILDING and view.holder is None:
                znode = other.get(paths.build(view.name, build.id))
                assert znode is not None
                assert znode.version > build.version  # so nobody who thinks that it died is heard


@pytest.mark.parametrize("at", range(1, 6))
def test_an_image_that_is_deleted_meanwhile_is_not_shown_without_its_request(
    breakable: Server, interrupted: InterruptedSession, connect: Connect, at: int
) -> None:
    other = connect(breakable)
    other.ensure(paths.builds("debian"))
    gone = (paths.request_build("debian"), paths.builds("debian"), paths.image("debian"))
    other.commit([Create(gone[0], BuildRequest(at=1.0))])

    def change() -> None:
        other.commit([Delete(path, 0) for path in gone])

    interrupted.disturb, interrupted.at = change, at
    view = read(interrupted, ["debian"]).get("debian")
    assert view is None or view.request is not None


# -- the cache --


class Counted(ImageCache):
    """A cache that says when it was woken."""

    def __init__(self, session: Session) -> None:
        self.woken = threading.Semaphore(0)
        super().__init__(session, self.woken.release)


def test_what_others_write_wakes_and_is_seen(session: Session, other: Session) -> None:
    cache = Counted(session)
    cache.load()
    assert cache.images == {}
    build = add_build(other, "debian")
    assert cache.woken.acquire(timeout=5)
    session.sync()
    assert cache.refresh()
    assert cache.images["debian"].build(build) is not None
    assert not cache.refresh()
    upload = add_upload(other, "debian", build, "cloud")
    other.commit([Create(paths.request_build("debian"))])
    session.sync()
    cache.refresh()
    view = cache.images["debian"]
    assert [each.id for each in view.builds[0].uploads] == [upload]
    assert view.request is not None
    other.commit(removal(other, paths.image("debian")))
    session.sync()
    cache.refresh()
    assert cache.images == {}


def test_locks_that_are_taken_and_lost_are_seen(
    session: Session, other: Session, zk_settings: ZooKeeperSettings, until: Until
) -> None:
    add_build(other, "debian", BuildState.BUILDING)
    cache = Counted(session)
    cache.load()

    def held() -> bool:
        cache.refresh()
        return cache.images["debian"].holder is not None

    with Session(zk_settings) as third:
        assert Locks(third).take(paths.build_lock("debian"), ME) is not None
        until(held)
    until(lambda: not held())


def test_an_idle_cache_asks_once_a_sweep_and_never_else(session: Session, other: Session) -> None:
    add_build(other, "debian")
    cache = Counted(session)
    cache.load()
    sent = requests(session)
    for _ in range(5):
        assert not cache.refresh()
    assert requests(session) == sent
    for _ in range(5):
        cache.sweep()
    assert requests(session) == sent + 5


def test_a_hundred_images_cost_no_more_requests_than_one(session: Session, other: Session) -> None:
    def costs() -> int:
        session.sync()
        cache.refresh()
        sent = requests(session)
        cache._dirty.update(names(session))
        cache.refresh()
        return requests(session) - sent - 1

    cache = Counted(session)
    cache.load()
    build = add_build(other, "debian")
    add_upload(other, "debian", build, "cloud")
    Locks(other).take(paths.build_lock("debian"), ME)
    one = costs()
    for number in range(100):
        build = add_build(other, f"image-{number}")
        add_upload(other, f"image-{number}", build, "cloud")
    assert one <= 11
    assert costs() == one


def test_a_change_is_read_for_its_image_alone(session: Session, other: Session) -> None:
    ids = {image: add_build(other, image) for image in ("debian", "ubuntu")}
    cache = Counted(session)
    cache.load()
    before = cache.images["ubuntu"]
    other.commit([Set(paths.build("debian", ids["debian"]), build_record(BuildState.DELETE), 0)])
    session.sync()
    cache.refresh()
    assert cache.images["ubuntu"] is before
    assert cache.images["debian"].builds[0].record.state is BuildState.DELETE


def test_what_no_event_told_is_seen_by_the_sweep(session: Session, other: Session) -> None:
    add_build(other, "gone")
    cache = Counted(session)
    cache.load()
    session.watch(paths.IMAGES, lambda _kind, _path: None)  # from now on events are lost
    build = add_build(other, "debian")
    other.commit(removal(other, paths.image("gone")))
    session.sync()
    assert not cache.refresh()
    assert not cache.woken.acquire(blocking=False)
    cache.sweep()
    assert list(cache.images) == ["debian"]
    assert cache.images["debian"].build(build) is not None


def test_after_a_reconnect_everything_is_read(breakable: Server, proxy: Proxy, connect: Connect, until: Until) -> None:
    session, other = connect(proxy, 10.0), connect(breakable)
    cache = Counted(session)
    cache.load()
    proxy.cut()
    until(lambda: not session.connected)
    build = add_build(other, "debian")
    cache._dirty.add("debian")
    with pytest.raises(Unavailable):
        cache.refresh()
    with pytest.raises(Unavailable):
        cache.sweep()
    assert cache.images == {}
    proxy.heal()
    until(lambda: session.connected)
    assert cache.refresh()
    assert cache.images["debian"].build(build) is not None
    assert not cache.refresh()


def test_a_reading_that_broke_is_made_again(breakable: Server, proxy: Proxy, connect: Connect, until: Until) -> None:
    session, other = connect(proxy, 10.0), connect(breakable)
    cache = Counted(session)
    cache.load()
    build = add_build(other, "debian")
    session.sync()
    cache._absorb()
    swallowed = proxy.drop_answers()
    threading.Thread(target=lambda: (swallowed.wait(5), proxy.heal())).start()
    with pytest.raises(OcbError):
        cache.refresh()
    until(lambda: session.connected)
    cache.refresh()
    assert cache.images["debian"].build(build) is not None


def test_the_cache_equals_a_fresh_read_after_any_order_of_events(session: Session, other: Session) -> None:
    chance = random.Random(4)
    cache = Counted(session)
    cache.load()
    locks = Locks(other)

    def one_thing() -> None:
        image = f"image-{chance.randrange(4)}"
        view = read(other, [image]).get(image, ImageView(image))
        build = chance.choice(view.builds) if view.builds else None
        match chance.randrange(7):
            case 0:
                add_build(other, image, chance.choice(list(BuildState)))
            case 1 if build:
                add_upload(other, image, build.id, f"cloud-{chance.randrange(2)}", chance.choice(list(UploadState)))
            case 2 if build:
                other.commit(
                    [Set(paths.build(image, build.id), build_record(tail=str(chance.random())), build.version)]
                )
            case 3 if build:
                other.commit(removal(other, paths.build(image, build.id)))
            case 4 if build:
                taken = locks.take(paths.build_lock(image), ME)
                if taken and chance.random() < 0.5:
                    locks.release(taken)
            case 5 if view.request:
                other.commit([Delete(paths.request_build(image), view.request.version)])
            case 5:
                other.ensure(paths.request_build(image))
            case 6 if chance.random() < 0.2:
                other.commit(removal(other, paths.image(image)))

    for _ in range(150):
        for _ in range(chance.randrange(4)):
            one_thing()
        session.sync()
        cache.refresh()
        assert cache.images == read(session, names(session))
