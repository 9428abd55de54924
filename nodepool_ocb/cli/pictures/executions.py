"""Waiting for the end of a rollout or of a run of tasks, with its progress on stderr."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Protocol

from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.cli.pictures import waits
from nodepool_ocb.errors import TimedOut
from nodepool_ocb.model.executions import Key
from nodepool_ocb.operations.executions.following import moments
from nodepool_ocb.operations.executions.watched import NO_ANNEALER, ExecutionEnd, ExecutionMoment, S, Watched, gone
from nodepool_ocb.views.pictures.tally import Tally


class Awaiting(Protocol[S]):
    """The words and pictures of a wait for one execution."""

    @property
    def watched(self) -> Watched[S]: ...

    @property
    def key(self) -> Key: ...

    def end(self, found: S) -> ExecutionEnd | None:
        """The end of the wait; None while it goes on."""

    def notes(self, found: S) -> Iterable[str]:
        """Sentences for an output without pictures; each is printed one time."""

    def tally(self, found: S) -> Tally: ...

    def picture(self, found: S, width: int) -> Iterable[Any]:
        """The parts of a picture that changes."""

    def show(self, found: S, outcome: str) -> None:
        """Print the result: one document."""


def wait(awaiting: Awaiting[S], timeout_seconds: float | None) -> None:
    """Wait for the end, and print the result.

    Raises the error of the end, NotFound if the execution was deleted, or TimedOut.
    """
    kind, key = awaiting.watched.kind, awaiting.key
    again = f"{kind.noun} wait {key}"
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    last: S | None = None
    ended: ExecutionEnd | None = None
    try:
        with waits.going_on(kind.name(key), lambda: again), waits.LiveProgress() as progress:
            for moment in moments(performer(), awaiting.watched, key, deadline):
                last = moment.found
                if last is None:
                    ended = gone(kind, key)
                    break
                _tell(progress, awaiting, moment, last)
                if (ended := awaiting.end(last)) is not None:
                    break
    except TimedOut:
        advice = f"to wait on: nodepool-ocb {again}"
        ended = ExecutionEnd("timeout", TimedOut(f"{kind.name(key)} goes on beyond the time-out; {advice}"))
    assert ended is not None, "a follower ends with an exception"
    if last is not None:
        awaiting.show(last, ended.outcome)
    if ended.error is not None:
        raise ended.error


def _tell(progress: waits.LiveProgress, awaiting: Awaiting[S], moment: ExecutionMoment[S], found: S) -> None:
    hint = [] if moment.annealers or found.over else [NO_ANNEALER]
    now = awaiting.tally(found)
    if progress.width is None:
        progress.note([*awaiting.notes(found), *hint])
        progress.tell(now)
    else:
        progress.tell(now, *awaiting.picture(found, progress.width), *hint)
