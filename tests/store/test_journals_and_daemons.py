"""The journal, its cursor, pauses of daemons, and what runs were given: as they are read, torn ones included."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Invalid, Spoiled
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.journal import Entry, Webhook
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Create, Daemon, DaemonPause, Delete, Deployment, Given, Set
from nodepool_ocb.store import acls, daemons, journal
from nodepool_ocb.store.client import access, blobs
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.journal import Cursor, Journaled

GIVEN = Given(jig="noop", attributes={"a": 1})


def entry(reason: str) -> Entry:
    return Entry(at=1.0, login="ann", host="h", verb="v", reason=reason)


def reasons(session: Session) -> list[str | None]:
    return [each.entry.reason if each.entry else None for each in journal.read(session, journal.numbers(session))]


def test_entries_are_read_in_order_and_a_torn_one_says_why(zk_session: Session, kazoo: KazooClient) -> None:
    for reason in ("a", "b", "c"):
        journal.write(zk_session, entry(reason))
    numbers = journal.numbers(zk_session)
    assert (numbers, reasons(zk_session)) == ([0, 1, 2], ["a", "b", "c"])
    kazoo.set(paths.entry(1), b"garbage")
    found = list(journal.read(zk_session, [2, 9, 1, 0]))
    assert [(each.number, each.entry and each.entry.reason) for each in found] == [(2, "c"), (1, None), (0, "a")]
    assert paths.entry(1) in found[1].problem


def test_the_oldest_entries_go_where_there_are_too_many(zk_session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ENTRIES", 6)
    monkeypatch.setattr(limits, "ENTRIES_LEFT", 4)
    for number in range(7):
        journal.write(zk_session, entry(str(number)))
    assert reasons(zk_session) == ["3", "4", "5", "6"]
    journal.trim(zk_session)
    assert len(reasons(zk_session)) == 4


def test_an_entry_is_written_where_the_folder_of_the_journal_is_not_there(zk_session: Session) -> None:
    folder = zk_session.get(paths.JOURNAL_ENTRIES)
    assert folder is not None
    zk_session.commit([Delete(folder.path, folder.version)])
    journal.write(zk_session, entry("a"))
    assert reasons(zk_session) == ["a"]


def test_what_a_person_commits_stands_in_the_journal_or_neither_is_written(
    zk_session: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ENTRIES", 3)
    monkeypatch.setattr(limits, "ENTRIES_LEFT", 2)
    path, noted, seen = paths.deployment("lab"), [], []
    assert reasons(zk_session) == []

    def note(_session: Session, changes: object, replaced: object) -> Entry | None:
        seen.append((changes, [znode.path for znode in replaced]))  # type: ignore[attr-defined]
        return entry("x") if len(seen) != 2 else None

    with Journaled(zk_settings, note, noted=lambda: noted.append(1)) as session:
        (stat,) = session.commit([Create(path, Deployment())])
        assert stat is not None
        assert (stat.version, len(noted), reasons(session)) == (0, 1, ["x"])
        session.commit([Set(path, Deployment(by="ann"), 0)])
        assert (len(noted), seen[1][1], reasons(session)) == (1, [path], ["x"])
        with pytest.raises(Exception, match=path):
            session.commit([Set(path, Deployment(), 0)])
        assert (len(noted), reasons(session)) == (1, ["x"])
        for version in (1, 2, 3):
            session.commit([Set(path, Deployment(), version)])
        assert len(reasons(session)) == 2


def test_the_cursor_says_how_far_the_webhook_is_and_begins_anew_with_the_journal(
    zk_session: Session, kazoo: KazooClient
) -> None:
    znode = zk_session.get(paths.WEBHOOK)
    assert journal.cursor(zk_session) == Cursor(None, 0 if znode else -1)
    if znode is not None:
        zk_session.commit([Delete(paths.WEBHOOK, 0)])
    assert journal.cursor(zk_session) == Cursor(None, -1)
    zk_session.commit([Create(paths.WEBHOOK)])
    assert journal.cursor(zk_session) == Cursor(None, 0)
    known = Webhook(delivered=7, at=1.0)
    zk_session.commit([Set(paths.WEBHOOK, known, 0)])
    assert journal.cursor(zk_session) == Cursor(known, 1)
    folder = zk_session.get(paths.JOURNAL_ENTRIES)
    assert folder is not None
    zk_session.commit([Delete(folder.path, folder.version)])
    assert journal.cursor(zk_session) == Cursor(known, 1)
    zk_session.commit([Create(paths.JOURNAL_ENTRIES)])
    assert journal.cursor(zk_session) == Cursor(replace(known, delivered=-1), 1)
    kazoo.set(paths.WEBHOOK, b"garbage")
    with pytest.raises(Invalid, match=paths.WEBHOOK):
        journal.cursor(zk_session)


def test_daemons_and_their_pauses_are_read_as_far_as_they_can_be(zk_session: Session, kazoo: KazooClient) -> None:
    record, paused = (
        Daemon(host="h", pid=1, version="0", started=1.0),
        DaemonPause(pause=Maintenance(by="ann", since=1.0)),
    )
    zk_session.ensure(paths.daemons("annealer"), paths.daemon_pauses("annealer"), paths.daemon_pauses("builder"))
    for id in ("b", "a", "torn"):
        zk_session.commit([Create(paths.daemon("annealer", id), record)])
    kazoo.set(paths.daemon("annealer", "torn"), b"garbage")
    unread: dict[str, str] = {}
    assert daemons.read(zk_session, "annealer", unread) == {"a": record, "b": record, "torn": None}
    assert list(unread) == [paths.daemon("annealer", "torn")]
    assert daemons.pause(zk_session, "annealer", "h1") is None
    for kind, host in (("builder", "h2"), ("annealer", "h1"), ("annealer", "torn")):
        zk_session.commit([Create(paths.daemon_pause(kind, host), paused)])
    found = daemons.pause(zk_session, "annealer", "h1")
    znode = zk_session.get(paths.daemon_pause("annealer", "h1"))
    assert found is not None
    assert znode is not None
    assert (found.record, found.version, found.mzxid) == (paused, 0, znode.mzxid)
    kazoo.set(paths.daemon_pause("annealer", "torn"), b"garbage")
    assert daemons.pauses(zk_session) == {("annealer", "h1"): paused, ("builder", "h2"): paused}


def test_what_runs_were_given_is_read_with_the_reason_where_it_cannot_be(
    zk_session: Session, kazoo: KazooClient
) -> None:
    zk_session.ensure(paths.noderole("a", "n1"))
    path, torn = paths.given("a", "n1"), paths.user("a", "n1")
    zk_session.commit([Create(path, GIVEN), Create(torn, {"x": 1})])
    assert blobs.attributes(zk_session, [torn, "/ocb/none"]) == {torn: {"x": 1}}
    kazoo.set(torn, b"garbage")
    first, second, third = blobs.given(zk_session, [path, "/ocb/none", torn])
    assert (first, second) == (GIVEN, None)
    assert third is not None
    assert third.jig == ""
    assert torn in (third.reason or "")
    with pytest.raises(Spoiled):
        blobs.attributes(zk_session, [torn])


def test_rights_of_a_creator_without_a_name_cannot_be_compared(zk_session: Session) -> None:
    creator = access.Acls(ZooKeeperSettings(hosts="h:1", acl="creator"))
    with pytest.raises(Invalid, match="creator needs a user"):
        acls.Walk(zk_session, creator)
    assert list(acls.Walk(zk_session, access.Acls(ZooKeeperSettings(hosts="h:1", acl="open"))).differing()) == []
