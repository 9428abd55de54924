"""A lost answer is looked up in a real journal, and told again as it was."""

from __future__ import annotations

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Append, Change, Check, Create, Delete, Deployment, Gate, Raise, Set
from nodepool_ocb.store.client import codec, doubts, outcome
from nodepool_ocb.store.client.frames import Znode, ZnodeStat
from nodepool_ocb.store.client.outcome import Appended, SentTransaction
from nodepool_ocb.store.client.session import Session

FOLDER = paths.JOURNAL_ENTRIES


def entry(reason: str) -> Entry:
    return Entry(at=1.0, login="ann", host="h", verb="v", reason=reason)


def write(session: Session, *reasons: str) -> list[str]:
    """Entries in this order; their paths."""
    return [session.create_next(f"{FOLDER}/", entry(reason)) for reason in reasons]


def stands(session: Session, path: str) -> Znode:
    znode = session.get(path)
    assert znode is not None
    return znode


def test_our_entry_is_found_behind_more_entries_than_are_read_at_once(
    zk_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doubts, "AT_ONCE", 2)
    before = stands(zk_session, write(zk_session, "old")[0]).czxid
    ours, *_ = [stands(zk_session, path) for path in write(zk_session, "ours", "b", "c", "d", "e")]
    newest = stands(zk_session, write(zk_session, "newest")[0])
    for znode in (ours, newest):
        assert doubts._appended(zk_session, FOLDER, znode.data, before) == Appended(zxid=znode.czxid)
    assert doubts._appended(zk_session, FOLDER, codec.encode(entry("never")), before) == Appended(absent=True)
    assert doubts.numbered(zk_session, f"{FOLDER}/", ours.data, before) == ours.path
    assert doubts.numbered(zk_session, f"{FOLDER}/", codec.encode(entry("never")), before) is None


def test_an_entry_of_before_shows_that_ours_is_not_there_though_the_oldest_are_gone(zk_session: Session) -> None:
    first, second, third = write(zk_session, "a", "b", "c")
    zk_session.commit([Delete(first, 0)])
    before, never = stands(zk_session, second).czxid, codec.encode(entry("never"))
    assert doubts._appended(zk_session, FOLDER, never, before) == Appended(absent=True)
    zk_session.commit([Delete(second, 0)])
    assert doubts._appended(zk_session, FOLDER, never, before) == Appended(absent=False), "it may have been deleted"
    zk_session.commit([Delete(third, 0)])
    assert doubts._appended(zk_session, FOLDER, never, before) == Appended(absent=True)


def test_an_empty_or_whole_journal_without_ours_shows_that_it_is_not_there(zk_session: Session) -> None:
    never = codec.encode(entry("never"))
    assert doubts._appended(zk_session, FOLDER, never, 0) == Appended(absent=True)
    write(zk_session, "a", "b")
    assert doubts._appended(zk_session, FOLDER, never, 0) == Appended(absent=True)


def test_the_answer_that_was_lost_is_told_as_it_was() -> None:
    changes: list[Change] = [
        Create("/a", Deployment()),
        Create("/b", Deployment()),
        Set("/c", Deployment(), 4),
        Set("/d", Deployment(), 4),
        Raise("/e", Gate()),
        Raise("/f", Gate()),
        Append("/g", entry("x")),
        Check("/h", 3),
        Delete("/i", 3),
    ]
    ours = {"czxid": 9, "mzxid": 9, "version": 7, "mtime": 5.0, "ephemeral_owner": 77}
    others = {**ours, "mzxid": 12}

    def znode(path: str, **fields: object) -> Znode:
        return Znode(path=path, data=b"", **fields)  # type: ignore[arg-type]

    found = [
        znode("/a", **ours), znode("/b", **others), znode("/c", **ours), znode("/d", **others), znode("/e", **others),
        None, None, znode("/h", **ours), None,
    ]  # fmt: skip
    sending = SentTransaction(changes, [b""] * len(changes), 8)
    assert outcome.stats(sending, found, 9) == [
        ZnodeStat(0, 9, 77),
        ZnodeStat(0, 9, 0),
        ZnodeStat(5, 9, 77, 5.0),
        ZnodeStat(5, 9, 0, 0.0),
        ZnodeStat(7, 12, 0, 5.0),
        None,
        ZnodeStat(0, 9),
        None,
        None,
    ]
