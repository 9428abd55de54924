"""ZooKeeper's clock, so that the hosts of a cluster measure deadlines by one clock.

The answer to a write carries the time that ZooKeeper gave it (mtime): a moment between the sending of the request and
the arrival of its answer. Between answers, the estimate follows this process's monotonic clock. Each answer moves the
estimate by the smallest step that fits it, so the error is at most the duration of the newest answer. Another leader's
clock may differ: then the time steps, forward or back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from nodepool_ocb.store.client import frames

ANY_VERSION: Final = -1  # of a znode that holds nothing


class TimeQuery(NamedTuple):
    """A transaction with an answer that tells the time, and the number of its members."""

    request: frames.Raw
    members: int


def questions(path: str, acl: bytes) -> tuple[TimeQuery, TimeQuery]:
    """The request that writes the znode at ``path``, and the one that creates it first. The znode stays empty."""
    made, written = frames.create(path, b"", acl, False), frames.write(path, b"", ANY_VERSION)
    return TimeQuery(frames.multi([written]), 1), TimeQuery(frames.multi([made, written]), 2)


class Clock:
    """An estimate of ZooKeeper's time; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.ahead: float | None = None  # of the monotonic clock; None until an answer has told the time

    def heed(self, answer: Any, members: int, sent: float) -> bool:
        """The answer to a question, or why there is none; whether it told the time."""
        if not isinstance(answer, frames.Reply):
            return False
        return self.heed_stats(frames.unpack_multi(answer, [0] * members), sent)

    def heed_stats(self, result: Sequence[frames.ZnodeStat | None] | frames.RefusedMember, sent: float) -> bool:
        """The same for any transaction that was answered just now."""
        if isinstance(result, frames.RefusedMember):
            return False
        mtime = max((stat.mtime for stat in result if stat is not None), default=0.0)
        if mtime:
            self.saw(mtime, sent, time.monotonic())
        return bool(mtime)

    def saw(self, mtime: float, sent: float, answered: float) -> None:
        """A write that was sent and answered at these monotonic times got this ``mtime`` (seconds since the epoch).

        >>> clock = Clock()
        >>> clock.saw(1000.0, sent=10.0, answered=12.0)
        >>> clock.at(13.0)
        1001.0
        """
        least, most = mtime - answered, mtime - sent
        with self._lock:
            self.ahead = least if self.ahead is None else min(max(self.ahead, least), most)

    def at(self, monotonic: float) -> float:
        """Seconds since the epoch at that monotonic time; raises ValueError while it is not known."""
        if self.ahead is None:
            raise ValueError("no answer of ZooKeeper has told the time yet")
        return monotonic + self.ahead
