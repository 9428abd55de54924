"""Annealers with a webhook deliver each entry, in order, one of them at a time, and an idle cluster is left alone."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from nodepool_ocb.config import WebhookSettings, ZooKeeperSettings
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.journal import Webhook
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Append, Change, Create, DaemonPause, Delete, Set
from nodepool_ocb.store import clusters, journal
from nodepool_ocb.store.client.session import Session, Stats
from nodepool_ocb.telemetry import redaction
from nodepool_ocb_annealer.webhook import batches, delivery, posting
from tests.annealer.webhook.posters import Poster, Receiver, entry, write, write_all

Until = Callable[..., None]
#: Make an annealer that runs until the end of the test: ``start("a", webhook)``.
Start = Callable[..., Poster]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(posting, "AGAIN_SECONDS", 0.02)


@pytest.fixture
def taker() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture
def start(zk_settings: ZooKeeperSettings, zk_session: Session, taker: Receiver) -> Iterator[Start]:
    assert zk_session.connected
    with ExitStack() as stack:

        def begin(identity: str = "a", webhook: WebhookSettings | None = None, has: bool = True) -> Poster:
            settings = (webhook or WebhookSettings(url=taker.url)) if has else None
            return stack.enter_context(Poster(zk_settings, identity, settings))

        yield begin


def cursor(session: Session) -> Webhook | None:
    return journal.cursor(session)[0]


def begun(session: Session) -> bool:
    """Whether the cursor stands: what is written from now on is sent."""
    return cursor(session) is not None


def ranked(*names: str) -> list[str]:
    """Them in the order in which they try the lock."""

    def rank(name: str) -> int:
        ranking = Ranking(name)
        ranking.among(names)
        return ranking.of("webhook")

    return sorted(names, key=rank)


def test_what_was_there_before_is_not_sent_and_what_comes_is_once_in_order_by_one_of_two(
    start: Start, zk_session: Session, taker: Receiver, until: Until, ocb: Any
) -> None:
    write(zk_session, 3)
    both = [start("a"), start("b")]
    until(lambda: begun(zk_session))
    write(zk_session, 5)
    until(lambda: len(taker.numbers) >= 5)
    write_all(zk_session, [entry(f"m{number}.example.com") for number in range(250)])
    until(lambda: len(taker.numbers) >= 255)
    until(lambda: cursor(zk_session).delivered == 257)  # type: ignore[union-attr]
    assert taker.numbers == list(range(3, 258))
    assert max(len(each.numbers) for each in taker.got) == batches.MOST_ENTRIES
    assert [each.sends for each in both].count(True) == 1
    (lock,) = json.loads(ocb("lock", "list", "-o", "json").stdout)
    where = taker.url.removesuffix("/hook")
    assert (lock["kind"], lock["name"], lock["purpose"]) == ("webhook", "journal", f"sends the journal to {where}")
    assert lock["owner"] == next(each.annealer.context.identity for each in both if each.sends)
    shown = taker.got[0].document
    assert shown["cluster"] == clusters.current(zk_session).id
    assert shown["missed"] == 0
    assert shown["entries"][0]["subjects"] == ["n0.example.com"]


def test_the_first_entry_of_a_new_journal_is_sent(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    start()
    until(lambda: begun(zk_session))
    write(zk_session)
    until(lambda: taker.numbers == [0])


def test_an_annealer_without_a_webhook_that_ranks_first_takes_nothing_from_the_other(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    first, second = ranked("a", "b")
    without = start(first, has=False)
    start(second)
    until(lambda: begun(zk_session))
    write(zk_session)
    until(lambda: taker.numbers == [0])
    assert not without.sends


def test_when_who_sends_dies_another_goes_on_without_a_loss(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    both = [start("a"), start("b")]
    until(lambda: begun(zk_session))
    write(zk_session, 2)
    until(lambda: taker.numbers == [0, 1])
    sender = next(each for each in both if each.sends)
    sender.die()
    write(zk_session, 2)
    until(lambda: taker.numbers[-2:] == [2, 3])
    assert sorted(set(taker.numbers)) == [0, 1, 2, 3]


def test_what_was_taken_but_not_noted_comes_again_under_its_number(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    one = start("a")
    until(lambda: begun(zk_session))
    asked = threading.Event()

    def answer(_: object) -> int:
        asked.set()
        taker.free.wait(20.0)
        return 200

    taker.answer = answer
    write(zk_session)
    assert asked.wait(20.0)
    one.die()  # the receiver has it, and nobody notes that
    taker.statuses(200)
    taker.free.set()
    start("b")
    until(lambda: len(taker.got) == 2)
    assert taker.numbers == [0, 0]


def test_what_is_refused_is_tried_again_in_order_and_said_once_for_each_reason(
    start: Start, zk_session: Session, taker: Receiver, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    start()
    until(lambda: begun(zk_session))
    taker.statuses(500, 500, 404, 307, 200)
    write(zk_session, 1)
    until(lambda: taker.got)
    write(zk_session, 2)
    until(lambda: cursor(zk_session).delivered == 2)  # type: ignore[union-attr]
    assert [each.numbers[0] for each in taker.got[:5]] == [0] * 5
    assert sorted(set(taker.numbers)) == [0, 1, 2]
    where = taker.url.removesuffix("/hook")

    def said() -> list[str]:
        return [each.getMessage() for each in caplog.records if "webhook" in each.getMessage()]

    until(lambda: len(said()) >= 4)
    assert [each.partition(";")[0] for each in said()] == [
        *(f"webhook: {where} answers 500", f"webhook: {where} answers 404"),
        f"webhook: {where} answers 307, and no redirect is followed",
        f"webhook: {where} takes entries again",
    ]
    assert {each.path for each in taker.got} == {"/hook"}


def test_a_webhook_that_fails_is_not_tried_at_each_entry(
    start: Start, zk_session: Session, taker: Receiver, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FIRST_SECONDS", 60.0)
    taker.statuses(500)
    start()
    until(lambda: begun(zk_session))
    write(zk_session, 1)
    until(lambda: taker.got)
    write(zk_session, 20)
    time.sleep(0.1)
    assert len(taker.got) == 1


def test_an_annealer_that_fails_often_leaves_the_work_to_another(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    first, second = ranked("a", "b")
    one = start(first, WebhookSettings(url="http://127.0.0.1:1/"))
    until(lambda: one.sends and begun(zk_session))
    other = start(second)
    write(zk_session, 2)
    until(lambda: taker.numbers == [0, 1])
    until(lambda: other.sends)
    assert not one.sends


def test_that_it_fails_for_long_is_noted_for_all_until_it_does_not(
    start: Start, zk_session: Session, taker: Receiver, until: Until, ocb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LONG_SECONDS", 0.05)
    taker.statuses(503)
    start()
    until(lambda: begun(zk_session))
    write(zk_session)
    until(lambda: cursor(zk_session).failing)  # type: ignore[union-attr]
    failing = cursor(zk_session).failing  # type: ignore[union-attr]
    assert failing is not None
    assert failing.reason == "answers 503"
    shown = ocb("status").stdout
    assert "THE WEBHOOK FAILS" in shown
    assert "answers 503" in shown
    assert json.loads(ocb("status", "-o", "json").stdout)["webhook"]["reason"] == "answers 503"
    taker.statuses(200)
    until(lambda: cursor(zk_session).failing is None)  # type: ignore[union-attr]
    assert "WEBHOOK" not in ocb("status").stdout


def test_a_failure_of_a_moment_is_not_noted(start: Start, zk_session: Session, taker: Receiver, until: Until) -> None:
    taker.statuses(503)
    start()
    until(lambda: begun(zk_session))
    write(zk_session)
    until(lambda: len(taker.got) > 2)
    assert cursor(zk_session).failing is None  # type: ignore[union-attr]


def test_entries_that_were_deleted_or_cannot_be_read_are_counted_and_hold_up_nothing(
    start: Start, zk_session: Session, taker: Receiver, until: Until, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    one = start("a")
    until(lambda: begun(zk_session))
    write(zk_session, 2)
    until(lambda: cursor(zk_session).delivered == 1)  # type: ignore[union-attr]
    one.die()
    monkeypatch.setattr(limits, "ENTRIES", 5)
    monkeypatch.setattr(limits, "ENTRIES_LEFT", 4)
    write(zk_session, 8)  # 2 to 9
    journal.trim(zk_session)  # 6 to 9 are left
    zk_session._client.set(paths.entry(7), b'{"oops')
    start("b")
    until(lambda: cursor(zk_session).delivered == 9)  # type: ignore[union-attr]
    assert taker.numbers == [0, 1, 6, 8, 9]
    assert taker.got[-1].document["missed"] == 5
    until(lambda: any("up to entry 9, 5 were not sent" in each.getMessage() for each in caplog.records))
    said = [each.getMessage() for each in caplog.records]
    assert any(f"this entry cannot be read: {paths.entry(7)}" in each for each in said)
    write(zk_session)
    until(lambda: taker.numbers[-1] == 10)
    assert taker.got[-1].document["missed"] == 0


def test_an_entry_that_somebody_deletes_brings_nothing_again_and_a_journal_made_anew_is_sent_whole(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    one = start("a")
    until(lambda: begun(zk_session))
    write(zk_session, 3)
    until(lambda: cursor(zk_session).delivered == 2)  # type: ignore[union-attr]
    zk_session.commit([Delete(paths.entry(2), 0)])
    write(zk_session)
    until(lambda: cursor(zk_session).delivered == 3)  # type: ignore[union-attr]
    assert taker.numbers == [0, 1, 2, 3]
    zk_session.commit([Delete(paths.entry(3), 0)])
    one.die()
    again = start("b")
    until(lambda: again.sends and not again.annealer.posting._under_way)
    assert taker.numbers == [0, 1, 2, 3]
    zk_session._client.delete(paths.JOURNAL_ENTRIES, recursive=True)
    zk_session.ensure(paths.JOURNAL_ENTRIES)
    write(zk_session, 2)
    until(lambda: taker.numbers == [0, 1, 2, 3, 0, 1])
    assert [each.document["missed"] for each in taker.got if each.document["missed"]] == []


def test_annealers_that_may_not_make_the_cursor_say_what_to_do_and_send_when_it_is_there(
    start: Start,
    zk_session: Session,
    taker: Receiver,
    until: Until,
    caplog: pytest.LogCaptureFixture,
    kazoo: KazooClient,
) -> None:
    kazoo.delete(paths.WEBHOOK, recursive=True)
    kazoo.set_acls(paths.JOURNAL, [make_acl("world", "anyone", read=True, admin=True)])
    start()
    until(
        lambda: any(
            "people give annealers their rights: nodepool-ocb acl init" in m.getMessage() for m in caplog.records
        )
    )
    kazoo.set_acls(paths.JOURNAL, [make_acl("world", "anyone", all=True)])
    zk_session.ensure(paths.WEBHOOK)
    until(lambda: begun(zk_session))
    write(zk_session)
    until(lambda: taker.numbers == [0])


def test_a_cursor_that_cannot_be_read_sends_nothing_and_is_named(
    start: Start,
    zk_session: Session,
    taker: Receiver,
    until: Until,
    caplog: pytest.LogCaptureFixture,
    ocb: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(posting, "PATIENT", 1000)
    assert json.loads(ocb("record", "show", paths.WEBHOOK, "-o", "json").stdout)["cannot_be_read"] is None
    zk_session._client.set(paths.WEBHOOK, b"{oops")
    start()
    write(zk_session)
    until(lambda: any("the number of the last sent entry is not known" in each.getMessage() for each in caplog.records))
    assert not taker.got
    shown = ocb("status")
    assert "CANNOT BE READ" in shown.stdout
    assert paths.WEBHOOK in shown.stdout
    until(lambda: ocb("record", "delete", paths.WEBHOOK, "--yes").exit_code == 0)
    until(lambda: begun(zk_session))
    write(zk_session)
    until(lambda: taker.numbers == [journal.numbers(zk_session)[-1]])


def test_bodies_are_signed_with_the_key_as_its_file_has_it_and_nothing_is_sent_without_one(
    start: Start, zk_session: Session, taker: Receiver, until: Until, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(delivery, "LONG_SECONDS", 0.0)
    file = tmp_path / "key"
    file.write_text("first-key\n")
    file.chmod(0o600)
    url = taker.url.replace("http://", "http://ann:hunter22@")
    start("a", WebhookSettings(url=url, secret_file=str(file)))
    until(lambda: begun(zk_session))

    def signed(key: bytes) -> bool:
        got = taker.got[-1]
        return got.headers[batches.SIGNATURE] == "sha256=" + hmac.new(key, got.body, hashlib.sha256).hexdigest()

    write(zk_session)
    until(lambda: len(taker.got) == 1)
    assert signed(b"first-key")
    assert taker.got[0].headers["Authorization"].startswith("Basic ")
    file.chmod(0o644)
    write(zk_session)
    until(
        lambda: any(f"may be used by others than its owner; chmod 600 {file}" in m.getMessage() for m in caplog.records)
    )
    until(lambda: cursor(zk_session).failing)  # type: ignore[union-attr]
    assert "annealer.webhook.secret_file" in cursor(zk_session).failing.reason  # type: ignore[union-attr]
    assert len(taker.got) == 1
    file.write_text("second-key")
    file.chmod(0o600)
    until(lambda: len(taker.got) == 2)
    assert signed(b"second-key")
    for word in ("first-key", "second-key", "hunter22"):
        assert word not in caplog.text
        assert redaction.masked(f"whatever says {word}") == "whatever says (secret)"


def test_an_idle_cluster_is_neither_read_nor_written(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    both = [start("a"), start("b")]
    until(lambda: begun(zk_session))
    write(zk_session)
    until(lambda: cursor(zk_session).delivered == 0)  # type: ignore[union-attr]
    asked: list[object] = []
    for each in both:
        _count(each, asked)
    until(lambda: _silent(asked))  # their last turns
    version = journal.cursor(zk_session)[1]
    zk_session.commit([Delete(paths.entry(0), 0)])  # as whoever writes deletes old ones
    time.sleep(0.2)
    assert asked == []
    assert journal.cursor(zk_session)[1] == version
    write(zk_session)
    until(lambda: taker.numbers == [0, 1])
    until(lambda: cursor(zk_session).delivered == 1)  # type: ignore[union-attr]
    time.sleep(0.1)
    assert 3 <= len(asked) <= 8, "one look and one write, by one of them"


def _silent(asked: list[object]) -> bool:
    """Whether nothing was asked for some time; forgets the requests before it."""
    asked.clear()
    time.sleep(0.2)
    return asked == []


def _count(poster: Poster, asked: list[object]) -> None:
    client = poster.session._client
    submit = client.submit

    def counted(request: Any, completion: Any, first: bool = False) -> None:
        asked.append(request)
        submit(request, completion, first)

    client.submit = counted


def test_a_paused_annealer_does_not_send_and_goes_on_when_it_may(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    one = start()
    until(lambda: begun(zk_session))
    path = paths.daemon_pause("annealer", one.annealer.registration.record.host)
    zk_session.ensure(path.rpartition("/")[0])
    zk_session.commit([Create(path, DaemonPause(pause=Maintenance(by="ann", since=1.0)))])
    until(lambda: one.annealer.context.resting and not zk_session.children(paths.WEBHOOK_LOCK))
    write(zk_session)
    time.sleep(0.1)
    assert not taker.got
    zk_session.commit([Delete(path, 0)])
    until(lambda: taker.numbers == [0])


def test_an_annealer_that_is_paused_while_it_sends_notes_what_was_taken_and_lets_go(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    def answer(_: object) -> int:
        taker.free.wait(20.0)
        return 200

    taker.answer = answer
    one = start()
    until(lambda: begun(zk_session))
    write(zk_session)
    until(lambda: taker.got)
    path = paths.daemon_pause("annealer", one.annealer.registration.record.host)
    zk_session.ensure(path.rpartition("/")[0])
    zk_session.commit([Create(path, DaemonPause(pause=Maintenance(by="ann", since=1.0)))])
    until(lambda: one.annealer.context.resting)
    assert zk_session.children(paths.WEBHOOK_LOCK), "nobody else may send that now"
    taker.free.set()
    until(lambda: not zk_session.children(paths.WEBHOOK_LOCK))
    assert cursor(zk_session).delivered == 0  # type: ignore[union-attr]


def test_an_annealer_that_drains_lets_go_and_another_goes_on(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    both = [start("a"), start("b")]
    until(lambda: begun(zk_session) and any(each.sends for each in both))
    one, other = both if both[0].sends else both[::-1]
    one.annealer.turns.stop.set()
    one.annealer.turns.wake.set()
    write(zk_session, 2)
    until(lambda: other.sends)
    until(lambda: cursor(zk_session).delivered == 1)  # type: ignore[union-attr]
    assert sorted(set(taker.numbers)) == [0, 1]


def test_a_reload_adds_changes_and_takes_away_the_webhook(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    one = start(has=False)
    until(lambda: one.annealer.context.cluster)
    write(zk_session)
    one.configure(WebhookSettings(url=taker.url))
    until(lambda: begun(zk_session))
    write(zk_session)
    until(lambda: taker.numbers == [1])
    with Receiver() as another:
        one.configure(WebhookSettings(url=another.url))
        until(lambda: one.annealer.posting._settings != WebhookSettings(url=taker.url))
        write(zk_session)
        until(lambda: another.numbers == [2])
        until(lambda: cursor(zk_session).delivered == 2)  # type: ignore[union-attr]
        one.configure(None)
        until(lambda: not zk_session.children(paths.WEBHOOK_LOCK))
        write(zk_session)
        time.sleep(0.1)
        assert taker.numbers + another.numbers == [1, 2]
        one.configure(WebhookSettings(url=another.url))
        until(lambda: another.numbers == [2, 3])


def test_a_reload_tries_again_at_once_what_waits(
    start: Start, zk_session: Session, taker: Receiver, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FIRST_SECONDS", 60.0)
    taker.statuses(401, 200)
    one = start()
    until(lambda: begun(zk_session))
    write(zk_session)
    until(lambda: taker.got and not one.annealer.posting._under_way)
    one.configure(WebhookSettings(url=taker.url))
    until(lambda: cursor(zk_session).delivered == 0)  # type: ignore[union-attr]


def test_a_wake_up_that_was_lost_is_made_good_by_a_sweep(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    one = start()
    until(lambda: begun(zk_session) and one.sends)
    asked: list[object] = []
    _count(one, asked)
    until(lambda: _silent(asked))  # a look that is still to come would find the entry
    one.session._client.watchers.pop(one.session.chroot + paths.JOURNAL)
    write(zk_session)
    time.sleep(0.1)
    assert not taker.got
    one.annealer.turns.sweep_soon()
    until(lambda: taker.numbers == [0])


def test_a_lock_that_somebody_deleted_is_taken_again_and_one_that_somebody_spoiled_is_named(
    start: Start, zk_session: Session, taker: Receiver, until: Until, ocb: Any
) -> None:
    one = start()
    until(lambda: begun(zk_session) and one.sends)
    (name,) = zk_session.children(paths.WEBHOOK_LOCK) or ()
    zk_session.commit([Delete(f"{paths.WEBHOOK_LOCK}/{name}", 0)])
    until(lambda: zk_session.children(paths.WEBHOOK_LOCK) not in ([], [name]))
    (name,) = zk_session.children(paths.WEBHOOK_LOCK) or ()
    zk_session._client.set(f"{paths.WEBHOOK_LOCK}/{name}", b"{oops")
    assert f"{paths.WEBHOOK_LOCK}/{name}" in ocb("status", "-o", "json").stdout
    write(zk_session)
    until(lambda: taker.numbers == [0])


def test_a_lock_that_could_not_be_released_goes_with_a_sweep(
    start: Start, zk_session: Session, taker: Receiver, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start("a1", WebhookSettings(url=taker.url))
    write(zk_session)
    until(lambda: first.sends)

    def commit(_: Sequence[Change]) -> Stats:
        raise Unavailable("the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(first.session, "commit", commit)
        first.configure(None)  # it lets go
        until(lambda: not first.sends)
        first.have_swept()
        assert len(zk_session.children(paths.WEBHOOK_LOCK) or ()) == 1
    first.have_swept()
    assert zk_session.children(paths.WEBHOOK_LOCK) == []


def test_an_entry_that_comes_while_the_connection_is_away_is_sent_when_it_is_back(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    one = start()
    until(lambda: begun(zk_session) and one.sends)
    connections = one.session.connections
    one.session._client._connection.abort()
    write(zk_session)
    until(lambda: one.session.connections > connections)
    until(lambda: taker.numbers == [0])


def test_a_session_that_is_lost_loses_no_entry(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    one = start()
    until(lambda: begun(zk_session) and one.sends)
    before = one.session.id
    _expire(one.session)
    write(zk_session, 3)
    until(lambda: one.session.id not in (0, before), 20.0)
    until(lambda: sorted(set(taker.numbers)) == [0, 1, 2], 20.0)
    assert taker.numbers == [0, 1, 2]


def _expire(session: Session) -> None:
    """As the server would: another connection takes the session over and ends it."""
    client = KazooClient(session.hosts, client_id=session._client.client_id)
    client.start()
    client.stop()
    client.close()


def test_a_cluster_that_is_older_than_the_webhook_gets_its_cursor(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    zk_session._client.delete(paths.JOURNAL, recursive=True)
    start()
    until(lambda: begun(zk_session))
    zk_session.ensure(paths.JOURNAL_ENTRIES)
    write(zk_session)
    until(lambda: taker.numbers == [0])


def test_an_error_of_the_program_in_the_first_attempt_does_not_lose_the_lock(
    start: Start, taker: Receiver, zk_session: Session, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt, left = delivery.attempt, [RuntimeError("can't start new thread")]

    def breaks_once(*arguments: Any) -> Any:
        if left:
            raise left.pop()
        return attempt(*arguments)

    monkeypatch.setattr(delivery, "attempt", breaks_once)
    start()
    until(lambda: begun(zk_session))
    write(zk_session)
    until(lambda: len(taker.numbers) == 1)


def test_entries_of_launchers_come_under_a_key_of_their_own_with_their_own_numbers(
    start: Start, zk_session: Session, taker: Receiver, until: Until
) -> None:
    zk_session.ensure(paths.JOURNAL_POOL)
    noted_entry = entry("0000000001", login="launcher", verb="launch node")
    zk_session.commit([Append(paths.JOURNAL_POOL, noted_entry)])
    old = Webhook(delivered=-1, at=1.0)  # an annealer of before has sent
    zk_session.ensure(paths.WEBHOOK)
    found = zk_session.get(paths.WEBHOOK)
    assert found is not None
    zk_session.commit([Set(paths.WEBHOOK, old, found.version)])
    start()
    until(lambda: (now := cursor(zk_session)) is not None and now.pool_delivered == 0)
    zk_session.commit([Append(paths.JOURNAL_POOL, noted_entry)])
    write(zk_session, 2)
    until(lambda: (now := cursor(zk_session)) is not None and (now.delivered, now.pool_delivered) == (1, 1))
    assert taker.numbers == [0, 1]
    pooled = [each.document for each in taker.got if "pool" in each.document]
    assert [(each["entries"], each["missed"], each["pool_missed"]) for each in pooled] == [([], 0, 0)]
    assert [(row["number"], row["verb"], row["pool"]) for row in pooled[0]["pool"]] == [(1, "launch node", True)]
