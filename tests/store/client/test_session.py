"""Reading, writing and watching in one session with a server that is well."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from nodepool_ocb.config import TlsSettings, ZooKeeperSettings
from nodepool_ocb.errors import Invalid, OcbError, Stale, Unavailable
from nodepool_ocb.model.records import Change, Check, Create, Delete, Deployment, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session, ZnodeStat
from nodepool_ocb.store.client.wire import Watcher
from nodepool_ocb.testing.zookeeper.server import free_port


def test_what_is_written_is_read(zk_session: Session) -> None:
    created, ephemeral = zk_session.commit(
        [Create("/ocb/a", Deployment(by="me")), Create("/ocb/b", {"x": 1}, ephemeral=True)]
    )
    assert created is not None
    assert ephemeral is not None
    found = zk_session.get_many(["/ocb/a", "/ocb/none", "/ocb/b"])
    assert found[0] is not None
    data = codec.unsigned(found[0].data)
    assert (data, found[0].version, found[0].mzxid) == (b'{"schema":1,"by":"me"}', 0, created.mzxid)
    assert found[1] is None
    assert found[2] is not None
    assert found[2].ephemeral_owner == ephemeral.ephemeral_owner == zk_session.id != 0
    assert abs(found[0].ctime - found[2].mtime) < 1


def test_a_transaction_answers_with_the_stats_that_reading_would_give(zk_session: Session) -> None:
    zk_session.commit([Create("/ocb/a"), Create("/ocb/b")])
    stats = zk_session.commit([Check("/ocb/b", 0), Set("/ocb/a", {"n": 1}, 0), Delete("/ocb/b", 0)])
    now = zk_session.get("/ocb/a")
    assert now is not None
    assert stats == [None, ZnodeStat(1, now.mzxid, mtime=now.mtime), None]
    assert zk_session.get("/ocb/b") is None


@pytest.mark.parametrize(
    "change",
    [Check("/ocb/a", 1), Check("/ocb/none", 0), Create("/ocb/a"), Create("/ocb/none/below"), Set("/ocb/a", {}, 1),
     Set("/ocb/none", {}, 0), Delete("/ocb/a", 1), Delete("/ocb/none", 0), Delete("/ocb/deployments", 0)],
)  # fmt: skip
def test_a_refused_change_is_named_and_nothing_is_written(zk_session: Session, change: Change) -> None:
    zk_session.commit([Create("/ocb/a")])
    with pytest.raises(Stale) as refused:
        zk_session.commit([Create("/ocb/before"), change, Create("/ocb/after")])
    assert refused.value.path == change.path
    assert zk_session.get_many(["/ocb/before", "/ocb/after"]) == [None, None]


def test_version_0_is_a_version(zk_session: Session) -> None:
    zk_session.commit([Create("/ocb/a")])
    zk_session.commit([Set("/ocb/a", {"n": 1}, 0)])
    with pytest.raises(Stale):
        zk_session.commit([Set("/ocb/a", {"n": 2}, 0)])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ([Create("/ocb/a", Deployment(by="x" * 256 * 1024))], "/ocb/a: .* more than it may hold"),
        ([Create("/ocb/a", {"x": "x" * 512 * 1024})], "/ocb/a: .* more than it may hold"),
        ([Create(f"/ocb/{n}", {"x": "x" * 200_000}) for n in "abc"], "/ocb/a and 2 other changes"),
        ([Check("/ocb", 0)] * 501, "501 changes"),
        ([Create("/ocb/a", {"x": {1, 2}}), Create("/ocb/b", {"x": object()})], "JSON"),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_sent(
    zk_session: Session, changes: list[Change], problem: str
) -> None:
    before = zk_session.last_zxid
    with pytest.raises(Invalid, match=problem):
        zk_session.commit(changes)
    answers: list[Any] = []
    zk_session.commit_soon(changes, answers.append)
    assert isinstance(answers[0], Invalid)
    zk_session.get("/ocb")
    assert (zk_session.last_zxid, zk_session.connected) == (before, True)


def test_a_thousand_znodes_are_read_in_order(zk_session: Session) -> None:
    names = [f"/ocb/n{number}" for number in range(1000)]
    for start in range(0, 1000, 250):
        zk_session.commit([Create(name, {"name": name}) for name in names[start : start + 250]])
    found = zk_session.get_many([*names, "/ocb/none"])
    assert [znode and znode.data for znode in found] == [*(b'{"name":"%s"}' % n.encode() for n in names), None]
    children, none = zk_session.children_many(["/ocb", "/ocb/none"])
    assert children is not None
    assert set(children) >= {name[5:] for name in names}
    assert none is None


def test_an_answer_of_megabytes_comes_whole(zk_session: Session) -> None:
    blob = {"x": "é" * 100_000}
    for name in "abcdefgh":
        zk_session.commit([Create(f"/ocb/{name}", blob)])
    found = zk_session.get_many([f"/ocb/{name}" for name in "abcdefgh"] * 5)
    assert {len(znode.data) for znode in found if znode} == {200_008}


def test_commits_overtake_nobody(zk_session: Session) -> None:
    zk_session.commit([Create("/ocb/a")])
    answers: list[list[ZnodeStat | None] | OcbError] = []
    done = threading.Event()

    def note(result: list[ZnodeStat | None] | OcbError) -> None:
        answers.append(result)
        if len(answers) == 300:
            done.set()

    for version in range(300):
        zk_session.commit_soon([Set("/ocb/a", {"n": version}, version)], note)
    assert done.wait(10)
    versions = [result[0].version for result in answers if isinstance(result, list) and result[0]]
    assert versions == list(range(1, 301))


def test_threads_share_a_session(zk_session: Session) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            zk_session.commit([Create(f"/ocb/{name}")])
            for version in range(100):
                zk_session.commit([Set(f"/ocb/{name}", {"n": version}, version)])
                znode = zk_session.get(f"/ocb/{name}")
                assert znode is not None
                assert znode.version == version + 1
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []


def test_a_watch_tells_of_everything_below(zk_session: Session, until: Any) -> None:
    seen: list[tuple[str, str]] = []
    zk_session.commit([Create("/ocb/a")])
    zk_session.watch("/ocb", lambda kind, path: seen.append((kind, path)))
    zk_session.commit([Create("/ocb/a/b"), Set("/ocb/a", {}, 0)])
    zk_session.commit([Delete("/ocb/a/b", 0)])
    until(lambda: len(seen) == 3)
    assert seen == [("created", "/ocb/a/b"), ("changed", "/ocb/a"), ("deleted", "/ocb/a/b")]


def test_another_watch_may_begin_while_an_event_is_told(zk_session: Session, until: Any) -> None:
    seen: list[str] = []

    def wake(_kind: str, path: str) -> None:
        zk_session._client.watch(f"/later{len(seen)}", Watcher(lambda *_: None))
        seen.append(path)

    zk_session.watch("/ocb", wake)
    for number in range(3):
        zk_session.commit([Create(f"/ocb/x{number}")])
    until(lambda: len(seen) == 3)
    assert zk_session.connections == 1


def test_a_watcher_that_fails_takes_nothing_down(zk_session: Session) -> None:
    zk_session.watch("/ocb", lambda _kind, _path: [][0])
    zk_session.commit([Create("/ocb/a")])
    zk_session.commit([Delete("/ocb/a", 0)])
    assert zk_session.connected


def test_ensure_makes_what_is_absent_and_writes_nothing_twice(zk_session: Session) -> None:
    zk_session.ensure("/ocb/x/y/z", "/ocb/x/w")
    assert sorted(zk_session.children("/ocb/x") or []) == ["w", "y"]
    before = zk_session.last_zxid
    zk_session.ensure("/ocb/x/y/z", "/ocb/x/w")
    zk_session.get("/ocb")
    assert zk_session.last_zxid == before


def test_what_somebody_makes_between_the_look_and_the_making_is_there(
    zk_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    zk_session.ensure("/ocb/x/y")
    monkeypatch.setattr(zk_session, "_there", lambda *_: False)
    zk_session.ensure("/ocb/x/y/z")
    assert zk_session.get("/ocb/x/y/z") is not None


def test_a_server_that_is_not_there_is_named_in_one_line() -> None:
    hosts = f"127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable, match=f"does not answer at {hosts} .*refused.*; is it up") as failure:
        Session(ZooKeeperSettings(hosts=hosts)).start(timeout_seconds=0.5)
    assert "\n" not in str(failure.value)


def test_it_is_enough_that_every_address_refuses() -> None:
    began = time.monotonic()
    session = Session(ZooKeeperSettings(hosts=f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"))
    with pytest.raises(Unavailable, match="connection refused: no server listens there"):
        session.start(timeout_seconds=120.0, refused_seconds=0.5)
    assert time.monotonic() - began < 60.0


def test_a_host_that_has_no_address_is_said() -> None:
    with pytest.raises(Unavailable, match=r"no host in zookeeper\.hosts can be resolved"):
        Session(ZooKeeperSettings(hosts="zk.invalid", allow_plaintext=True)).start(timeout_seconds=1.0)


@pytest.mark.parametrize("hosts", ["zk1.example.com:2181", "127.0.0.1,10.1.2.3/ocb", "[2001:db8::1]:2181"])
def test_plain_text_to_another_machine_is_refused(hosts: str) -> None:
    with pytest.raises(Invalid, match="would not be encrypted"):
        Session(ZooKeeperSettings(hosts=hosts))
    Session(ZooKeeperSettings(hosts=hosts, allow_plaintext=True))
    Session(ZooKeeperSettings(hosts=hosts, tls=TlsSettings()))


@pytest.mark.parametrize("hosts", ["127.0.0.1:2181,localhost:2182/x", "[::1]:2181", "127.9.9.9"])
def test_plain_text_within_a_machine_is_not(hosts: str) -> None:
    Session(ZooKeeperSettings(hosts=hosts))


@pytest.mark.parametrize("path", ["/ocb/roles/", "/ocb/roles/a\x07", "/ocb/roles/.."])
def test_a_path_that_no_znode_may_have_is_the_fault_of_the_request(zk_session: Session, path: str) -> None:
    with pytest.raises(Invalid, match="ZooKeeper takes no znode"):
        zk_session.commit([Create(path)])
    assert zk_session.get(path) is None
