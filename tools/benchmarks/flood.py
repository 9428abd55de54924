"""Many requests through one session, so and so many under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Final

from nodepool_ocb.errors import OcbError
from nodepool_ocb.model.records import Change
from nodepool_ocb.store.client.session import Session

WINDOW: Final = 400  # under way at once: fewer starve the server, more make it throttle


def flood(session: Session, transactions: Iterable[Sequence[Change]], window: int = WINDOW) -> float:
    """Commit them all, in order, without waiting for one another; gives the seconds that it took.

    Raises the first refusal.
    """
    room = threading.Semaphore(window)
    refused: list[OcbError] = []

    def done(answer: object) -> None:
        if isinstance(answer, OcbError):
            refused.append(answer)
        room.release()

    began = time.perf_counter()
    for changes in transactions:
        room.acquire()
        session.commit_soon(changes, done)
    for _ in range(window):
        room.acquire()
    took = time.perf_counter() - began
    if refused:
        raise refused[0]
    return took
