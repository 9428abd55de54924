"""Transactions of the annealer that nobody waits for."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from nodepool_ocb.errors import OcbError, OutcomeUnknown
from nodepool_ocb.model.records import Check
from nodepool_ocb.store.client.doubts import Doubt
from nodepool_ocb.store.client.outcome import SentTransaction
from nodepool_ocb_annealer.writing import Writing


@pytest.mark.parametrize("elsewhere", [False, True])
def test_only_the_turn_thread_may_write(elsewhere: bool) -> None:
    here = threading.get_ident()
    turns: Any = SimpleNamespace(here=lambda: threading.get_ident() == here, post=lambda call: call())
    unused: Any = SimpleNamespace()
    raised: list[str] = []

    def send() -> None:
        try:
            Writing(unused, unused, turns).send([], lambda _: None, "nothing")
        except AssertionError as error:
            raised.append(str(error))

    if elsewhere:
        worker = threading.Thread(target=send)
        worker.start()
        worker.join()
    else:
        send()
    assert raised == (["decisions are made on the turn thread"] if elsewhere else [])


def test_a_lost_answer_is_unknown_where_no_thread_can_settle_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its claim would be held for ever if the transaction had no end."""

    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    changes = [Check("/ocb/structure", 3)]
    doubt = Doubt("the answer was lost", SentTransaction(changes, [b""], 7))
    turns: Any = SimpleNamespace(here=lambda: True, post=lambda call: call())
    session: Any = SimpleNamespace(commit_soon=lambda _, done: done(doubt))
    read_again: list[Any] = []
    cache: Any = SimpleNamespace(expect=lambda _: None, refused=read_again.append)
    heard: list[OcbError | None] = []
    monkeypatch.setattr(threading.Thread, "start", full)
    Writing(session, cache, turns).send(list(changes), heard.append, "a claim")
    assert [type(each) for each in heard] == [OutcomeUnknown]
    assert read_again == [changes], "what it names is read again"
