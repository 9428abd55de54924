"""Task lists in ZooKeeper: the old one or the new one whole, and no way to write over what one has not seen."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Conflict, Invalid, NotFound, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Delete, Deployment, Set
from nodepool_ocb.store.client.session import Session, Stats
from nodepool_ocb.store.tasks import lists
from nodepool_ocb.store.tasks.lists import Meta, deployment, release
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.records import ListOwner, StoredList, TaskListPart, TaskListRecord
from tests.fixtures.deletions import deletion_of_deployment as deletion

META = Meta(tasks=1, by="ann")
RELEASE = release("9.0")
LARGE = 100 * 16 * 1024  # letters: some nine znodes


@pytest.fixture
def session(zk_session: Session) -> Session:
    zk_session.commit([Create(paths.deployment("lab"), Deployment(parent="system"))])
    return zk_session


def upload(session: Session, texts: Mapping[str, str], owner: ListOwner = RELEASE, seen: int | None = None) -> None:
    lists.upload(session, owner, texts, META, seen)


def folders(session: Session, owner: ListOwner) -> list[str]:
    return [name for name in session.children(owner.path()) or () if name.startswith("list-")]


@pytest.mark.parametrize("owner", [release("9.0"), deployment("lab")])
def test_an_uploaded_list_is_read_unchanged(session: Session, owner: ListOwner) -> None:
    texts = {
        "netconfig/tasks.yaml": '- id: a\n  # grün, \u2028 and "quotes"\n',
        "empty/tasks.yaml": "",
        "large/tasks.yaml": '\n"ü' * (LARGE // 3),
        "tasks.yaml": "x" * LARGE,
    }
    made = lists.upload(session, owner, texts, Meta(tasks=7, by="ann", lenient=True, compat_prefix=True), None)
    found = lists.read(session, owner)
    assert found.texts == texts
    assert list(found.texts) == list(texts)
    assert found.record == made
    assert (made.files, made.tasks, made.by, made.lenient, made.compat_prefix) == (4, 7, "ann", True, True)
    assert made.parts > 10
    assert made.since > 1e9


def test_what_is_not_there_is_empty_and_a_deployment_that_is_not_there_is_said(session: Session) -> None:
    assert lists.read(session, release("9.0")) == StoredList()
    assert not lists.read(session, deployment("lab")).there
    for call in (
        lambda: lists.read(session, deployment("none")),
        lambda: upload(session, {"a": "b"}, deployment("none")),
        lambda: lists.configure(session, "none", {}, None, None),
        lambda: lists.base(session, "none", None),
        lambda: lists.base(session, "lab", "8.0"),
    ):
        with pytest.raises(NotFound):
            call()
    assert session.get(deployment("none").path()) is None


def test_an_upload_replaces_the_whole_list_and_leaves_nothing_of_it(session: Session) -> None:
    upload(session, {"a": "1", "b": "2"})
    upload(session, {"a": "3"})
    assert lists.read(session, release("9.0")).texts == {"a": "3"}
    assert len(folders(session, release("9.0"))) == 1


def test_an_upload_over_a_list_that_changed_since_is_refused_and_leaves_nothing(session: Session) -> None:
    owner = release("9.0")
    upload(session, {"a": "0"}, seen=-1)
    seen = lists.read(session, owner).version
    upload(session, {"a": "1"}, seen=seen)
    with pytest.raises(Conflict, match=r"of release 9\.0 was changed meanwhile, by ann"):
        upload(session, {"a": "2"}, seen=seen)
    with pytest.raises(Conflict):
        upload(session, {"a": "2"}, seen=-1)
    assert lists.read(session, owner).texts == {"a": "1"}
    assert len(folders(session, owner)) == 1
    upload(session, {"a": "2"}, seen=None)
    assert lists.read(session, owner).texts == {"a": "2"}


def test_an_upload_that_did_not_end_is_never_read_and_goes_with_the_next(session: Session) -> None:
    owner = release("9.0")
    session.ensure(owner.path("list-0000000000"), owner.path("list-0000000000/0000"))
    found = lists.read(session, owner)
    assert not found.there
    upload(session, {"a": "1"}, seen=found.version)
    assert lists.read(session, owner).texts == {"a": "1"}
    assert len(folders(session, owner)) == 1


def test_a_reader_sees_the_old_list_or_the_new_one_and_never_a_mixture(
    session: Session, zk_settings: ZooKeeperSettings
) -> None:
    owner = release("9.0")
    whole = [{name: str(number) * LARGE for name in ("a", "b")} for number in range(2)]
    upload(session, whole[0])
    ended = threading.Event()

    def write() -> None:
        with Session(zk_settings) as other:
            for number in range(8):
                upload(other, whole[(number + 1) % 2])
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while not ended.is_set():
        found = lists.read(session, owner).texts
        assert found in whole
        seen.add(found["a"][0])
    writer.join()
    assert seen == {"0", "1"}


def test_of_two_who_saw_one_list_one_uploads_and_the_other_is_refused(
    session: Session, zk_settings: ZooKeeperSettings
) -> None:
    owner = release("9.0")
    upload(session, {"a": "0"})
    seen = lists.read(session, owner).version
    start = threading.Barrier(2)
    outcomes: list[str] = []

    def write(name: str) -> None:
        with Session(zk_settings) as other:
            start.wait(30)
            try:
                upload(other, {"a": name * LARGE}, seen=seen)
                outcomes.append(name)
            except Conflict:
                outcomes.append("refused")

    writers = [threading.Thread(target=write, args=(name,)) for name in ("x", "y")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(outcomes) in (["refused", "x"], ["refused", "y"])
    (winner,) = set(outcomes) - {"refused"}
    assert lists.read(session, owner).texts == {"a": winner * LARGE}
    assert len(folders(session, owner)) == 1


def test_an_upload_by_force_that_a_later_one_overtook_is_refused_and_the_later_one_stays_whole(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, forget = lists._written, lists._forget
    still_to_forget: list[Any] = []

    def overtaken(session: Session, owner: ListOwner, parts: Sequence[TaskListPart]) -> str:
        folder = written(session, owner, parts)
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(lists, "_written", written)
            meanwhile.setattr(lists, "_forget", lambda *given: still_to_forget.append(given))
            upload(session, {"a": "later"})
        return folder

    monkeypatch.setattr(lists, "_written", overtaken)
    with pytest.raises(Conflict, match="changed meanwhile, by ann"):
        upload(session, {"a": "earlier"})
    forget(*still_to_forget[0])
    assert lists.read(session, RELEASE).texts == {"a": "later"}
    assert len(folders(session, RELEASE)) == 1


def test_a_deployment_has_its_release_and_its_settings_beside_its_list(session: Session) -> None:
    upload(session, {"a": "1"})
    lists.base(session, "lab", "9.0")
    lists.configure(session, "lab", {"storage": {"objects_ceph": True}}, "ann", -1)
    upload(session, {"own": "2"}, deployment("lab"))
    found = lists.read(session, deployment("lab"))
    assert (found.record.release, found.texts, found.settings) == (
        "9.0",
        {"own": "2"},
        {"storage": {"objects_ceph": True}},
    )
    with pytest.raises(Conflict, match="settings of deployment lab were changed"):
        lists.configure(session, "lab", {}, "bob", -1)
    lists.configure(session, "lab", {"x": 1}, "bob", found.settings_version)
    lists.base(session, "lab", None)
    found = lists.read(session, deployment("lab"))
    assert (found.record.release, found.texts, found.settings) == (None, {"own": "2"}, {"x": 1})


def test_all_lists_are_listed_with_their_records(session: Session) -> None:
    upload(session, {"a": "1"})
    upload(session, {"a": "1"}, release("10.0"))
    lists.base(session, "lab", "9.0")
    session.ensure(paths.release_tasks("empty"), paths.deployment_tasks("gone"))
    found = lists.listed(session)
    assert [str(owner) for owner in found] == ["release 10.0", "release 9.0", "deployment lab"]
    assert found[deployment("lab")].release == "9.0"


def test_a_deployment_that_is_deleted_takes_its_list_along(session: Session) -> None:
    upload(session, {"a": "1"}, deployment("lab"))
    lists.configure(session, "lab", {"x": 1}, None, None)
    for changes in deletion(session, load_world(session), "lab"):
        session.commit(changes)
    assert session.get(deployment("lab").path()) is None


def test_a_second_deployment_of_the_name_does_not_find_the_list_of_the_first(session: Session) -> None:
    upload(session, {"a": "1"}, deployment("lab"))
    upload(session, {"a": "1"})
    lists.base(session, "lab", "9.0")
    lists.configure(session, "lab", {"x": 1}, None, None)
    session.commit([Delete(paths.deployment("lab"), 0)])  # whoever deleted it was killed before the list went
    session.commit([Create(paths.deployment("lab"), Deployment(parent="system"))])
    found = lists.read(session, deployment("lab"))
    assert (found.there, found.texts, found.settings, found.record.release) == (False, {}, {}, None)
    assert deployment("lab") not in lists.listed(session)
    lists.configure(session, "lab", {"y": 2}, None, found.settings_version)
    upload(session, {"a": "2"}, deployment("lab"), seen=found.version)
    found = lists.read(session, deployment("lab"))
    assert (found.texts, found.settings, found.record.release) == ({"a": "2"}, {"y": 2}, None)


def test_no_list_is_uploaded_to_a_deployment_that_is_deleted_meanwhile(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = lists._written

    def slowly(*asked: object) -> str:
        made = write(*asked)  # type: ignore[arg-type]
        session.commit([Delete(paths.deployment("lab"), 0)])
        return made

    monkeypatch.setattr(lists, "_written", slowly)
    with pytest.raises(NotFound):
        upload(session, {"a": "1"}, deployment("lab"))
    assert folders(session, deployment("lab")) == []


def test_a_deployment_that_ends_while_the_record_is_written_refuses_it(session: Session) -> None:
    session.ensure(deployment("lab").path())

    def after(before: TaskListRecord, life: float) -> TaskListRecord:
        session.commit([Delete(paths.deployment("lab"), 0)])
        return replace(before, upload="list-0000000007", life=life)

    with pytest.raises(NotFound):
        lists._entered(session, deployment("lab"), after, None)
    znode = session.get(deployment("lab").path())
    assert znode is not None
    assert znode.data == b""


def test_a_list_of_which_a_part_is_gone_is_not_read(session: Session) -> None:
    upload(session, {"a": "x" * LARGE})
    (folder,) = folders(session, RELEASE)
    session.commit([Delete(RELEASE.path(f"{folder}/0003"), 0)])
    with pytest.raises(Stale, match="is not whole; upload it anew"):
        lists.read(session, RELEASE)


def test_what_cannot_be_read_is_said_and_an_upload_with_force_replaces_it(session: Session) -> None:
    upload(session, {"a": "1"})
    znode = session.get(paths.release_tasks("9.0"))
    assert znode is not None
    session._client.set(paths.release_tasks("9.0"), b"garbage")
    with pytest.raises(Invalid, match=r"/ocb/tasks/releases/9\.0"):
        lists.read(session, release("9.0"))
    assert lists.listed(session) == {}
    upload(session, {"a": "2"})
    assert lists.read(session, release("9.0")).texts == {"a": "2"}


def test_names_and_sizes_that_cannot_be_are_refused(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("9/0", "", "X", "a b"):
        with pytest.raises(Invalid, match="is no name"):
            upload(session, {"a": "1"}, release(name))
    monkeypatch.setattr(lists, "BYTES", 9)
    with pytest.raises(Invalid, match="larger than"):
        upload(session, {"a": "ü" * 5})
    with pytest.raises(Invalid):
        lists.configure(session, "lab", {"x": "y" * 300_000}, None, None)


class Contended(Session):
    """A session whose every commit comes after another write of the same task list."""

    def commit(self, changes: Sequence[Change]) -> Stats:
        written = [change for change in changes if isinstance(change, Set) and change.path == RELEASE.path()]
        if written:
            super().commit([replace(written[0], data=TaskListRecord(by="bob"))])
        return super().commit(changes)


def test_a_list_that_others_write_without_end_is_refused_by_its_name(
    zk_settings: ZooKeeperSettings, session: Session
) -> None:
    upload(session, {"tasks.yaml": "x"})
    with Contended(zk_settings) as contended, pytest.raises(Conflict, match=f"the task list of {RELEASE} was changed"):
        upload(contended, {"tasks.yaml": "y"})
