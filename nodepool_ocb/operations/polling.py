"""Polling: a read that is performed again and again at a server of the API, where a session would watch znodes.

The server answers from its cache, so a poll costs no request to ZooKeeper beyond one ``sync``. Polls rest longer if they take
longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from nodepool_ocb.errors import TimedOut, Unavailable
from nodepool_ocb.operations.following import OUTAGE_SECONDS, TOO_LONG
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.operations.performer import AnyPerformer

POLL_SECONDS: Final = 0.5  # between two polls
SHARE: Final = 4  # times as long as a poll took, none begins

T = TypeVar("T")


def polled(performer: AnyPerformer, ask: Callable[[], Operation[T]], deadline: float | None = None) -> Iterator[T]:
    """The answer to ``ask()`` now, and again and again, equal or not.

    Raises TimedOut at the deadline (monotonic), Unavailable after a long outage, and the errors of the operation.
    """
    silent_since: float | None = None
    while True:
        begun = time.monotonic()
        try:
            answer = performer.perform(ask()).answer
        except Unavailable as silent:
            if silent_since is None:
                silent_since = begun
                performer.caller.note(f"{silent}; waiting for it")
            if begun >= silent_since + OUTAGE_SECONDS:
                raise
        else:
            silent_since = None
            yield answer
        _pause(max(POLL_SECONDS, SHARE * (time.monotonic() - begun)), deadline)


def _pause(seconds: float, deadline: float | None) -> None:
    now = time.monotonic()
    if deadline is not None and now >= deadline:
        raise TimedOut(TOO_LONG)
    time.sleep(seconds if deadline is None else min(seconds, deadline - now))
