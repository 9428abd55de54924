"""Transactions of the annealer that nobody waits for."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from nodepool_ocb_annealer.writing import Writing


@pytest.mark.parametrize("elsewhere", [False, True])
def test_only_the_turn_thread_may_write(elsewhere: bool) -> None:
    here = threading.get_ident()
    turns: Any = SimpleNamespace(here=lambda: threading.get_ident() == here)
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
