"""A rollout as it goes on: ``rollout show --watch``, and waiting for its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.follow import Following
from nodepool_ocb.cli.kit.live import Live, lively
from nodepool_ocb.cli.pictures import waits
from nodepool_ocb.cli.rollouts import rolling
from nodepool_ocb.errors import InError, NotFound, OcbError, TimedOut
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.rollout.records import Rollout, RolloutState
from nodepool_ocb.views.progress import RolloutProgress, moved, of_rollout
from nodepool_ocb.views.rollouts import lines, rows, tables
from nodepool_ocb.views.rollouts.rows import Key

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

TICK_SECONDS: Final = 5.0  # annealers come and go
SHARE: Final = 4  # times as long as a read took nothing is read: a large rollout changes all the time


class View(NamedTuple):
    """A rollout at one moment; ``rollout`` is None when it is gone."""

    rollout: Rollout | None
    holder: LockOwner | None
    annealers: bool  # any is running


# -- following --


class _Source:
    """One rollout, for Following: read whole whenever something below it changes."""

    def __init__(self, key: Key, opened: Session, wake: Callable[[], None]) -> None:
        self._key, self._opened, self._wake = key, opened, wake
        self._connection = 0
        self._changed = False
        self._took_seconds = 0.0
        self.view = View(None, None, annealers=False)

    def load(self) -> bool:
        for path in (paths.rollout(*self._key), paths.daemons("annealer")):
            self._opened.watch(path, self._event)
        return self.sweep()

    def refresh(self) -> bool:
        if not self._changed and self._connection == self._opened.connections:
            return False
        time.sleep(min(1.0, SHARE * self._took_seconds))
        return self.sweep()

    def sweep(self) -> bool:
        from nodepool_ocb.store import rollouts

        begun = time.monotonic()
        self._connection = self._opened.connections
        self._changed = False  # before the read: a change during it must be read again
        found = rollouts.read(self._opened, *self._key)
        annealers = bool(self._opened.children(paths.daemons("annealer")))
        holder = rolling.driver(self._opened, self._key) if found else None
        self.view = View(found[0] if found else None, holder, annealers)
        self._took_seconds = time.monotonic() - begun
        return True

    def _event(self, _kind: str, _path: str) -> None:
        self._changed = True
        self._wake()


def views(key: Key, deadline: float | None) -> Iterator[View]:
    """The rollout at once, after every change, and now and then; raises TimedOut at the deadline (monotonic)."""
    made: list[_Source] = []

    def make(opened: Session, wake: Callable[[], None]) -> _Source:
        made.append(_Source(key, opened, wake))
        return made[0]

    for _ in Following(deadline).changes(make, TICK_SECONDS):
        yield made[0].view


# -- show --watch --


def watch(key: Key) -> None:
    """Show it until it is over; raises NotFound when it is gone."""
    following = views(key, None)
    if not lively(sys.stdout):
        _lines(key, following)
        return
    last = None
    with Live(sys.stdout) as live:
        for last in following:
            if last.rollout is None or last.rollout.over:
                break
            _show(live, key, last)
    if last is None or last.rollout is None:
        raise NotFound(f"rollout {key} was deleted")
    output.render(*rolling.parts(rows.document(key, last.rollout, last.holder)))


def _lines(key: Key, following: Iterator[View]) -> None:
    """A JSON object a line for the rollout, each group and each node, now and whenever it changes."""
    shown: dict[tuple[str, str], rows.WatchLine] = {}
    for rollout, holder, _ in following:
        if rollout is None:
            output.line(rows.Gone(rollout=str(key)))
            raise NotFound(f"rollout {key} was deleted")
        for name, row in rows.watched(key, rollout, holder):
            if shown.get(name) != row:
                shown[name] = row
                output.line(row)
        if rollout.over:
            return


def _show(live: Live, key: Key, view: View) -> None:
    assert view.rollout is not None, "what is gone is not shown"
    picture = tables.picture(rows.document(key, view.rollout, view.holder))
    table = output.picture(picture.groups, rolling.GROUP_COLUMNS, ("since", "critical"), live.width)
    live.show(picture.head, table, *([] if view.annealers else [rolling.NOBODY]))


# -- wait --


def wait(key: Key, timeout_seconds: float | None, fail_fast: bool = False) -> None:
    """Wait for the end of a rollout, and print its report: one document.

    Raises InError (failed, cancelled, paused), NotFound (deleted), or TimedOut.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    last: View | None = None
    now = RolloutProgress(None)
    ended: OcbError | None = None
    try:
        with waits.going_on(f"rollout {key}", lambda: f"rollout wait {key}"):
            for last in _shown(key, views(key, deadline)):
                now = of_rollout(last.rollout, fail_fast)
                if now.outcome:
                    ended = _error(key, now, last.rollout)
                    break
    except TimedOut:
        ended = TimedOut(f"rollout {key} goes on beyond the time-out; to wait on: nodepool-ocb rollout wait {key}")
    if last is not None and last.rollout is not None:
        outcome = "timeout" if isinstance(ended, TimedOut) else now.outcome
        report = rows.reported(rows.document(key, last.rollout, last.holder), last.rollout)
        document = rows.Awaited(outcome, report.row, report.report)
        output.text(document, str(key) if output.chosen() == "name" else report.report)
    if ended is not None:
        raise ended


def _shown(key: Key, following: Iterator[View]) -> Iterator[View]:
    """With a picture that changes on a terminal; elsewhere a line for each group that has moved on, and how far it is."""
    with waits.Progress() as progress:
        for view in following:
            if view.rollout is not None:
                _tell(progress, key, view)
            yield view


def _tell(progress: waits.Progress, key: Key, view: View) -> None:
    assert view.rollout is not None, "what is gone says nothing"
    nobody = [] if view.annealers or view.rollout.over else [rolling.NOBODY]
    document = rows.document(key, view.rollout, view.holder)
    now = tables.tally(document)
    if progress.width is None:
        progress.note([*moved(view.rollout), *nobody])
        progress.tell(now)
        return
    picture = tables.picture(document)
    table = output.picture(picture.groups, rolling.GROUP_COLUMNS, ("since", "critical"), progress.width)
    progress.tell(now, picture.head, table, *nobody)


def _error(key: Key, now: RolloutProgress, rollout: Rollout | None) -> OcbError | None:
    if rollout is None:
        return NotFound(f"rollout {key} was deleted")
    if now.outcome == RolloutState.SUCCESS:
        return None
    if now.group is not None:
        return InError(f"rollout {key}: {now.sentence}: {lines.promote(str(key), rollout, now.group)}")
    assert now.outcome is not None, "what is open has no error"
    sentence = now.sentence if now.sentence.startswith(now.outcome) else f"{now.outcome}: {now.sentence}"
    return InError(f"rollout {key}: {sentence}{f'; {lines.advice(str(key), rollout)}' if rollout.over else ''}")
