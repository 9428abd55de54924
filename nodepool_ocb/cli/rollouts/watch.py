"""A rollout as it goes on: ``rollout show --watch``, and waiting for its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.live import Live, lively
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.cli.pictures import waits
from nodepool_ocb.cli.rollouts import rolling
from nodepool_ocb.errors import NotFound, OcbError, TimedOut
from nodepool_ocb.model.executions import Key
from nodepool_ocb.operations.rollouts import watching
from nodepool_ocb.operations.rollouts.finding import NO_ANNEALER
from nodepool_ocb.operations.rollouts.watching import RolloutView
from nodepool_ocb.views.progress import RolloutProgress
from nodepool_ocb.views.rollouts import rows, tables

# -- show --watch --


def watch(key: Key) -> None:
    """Show it until it is over; raises NotFound when it is gone."""
    following = watching.views(performer(), key, None)
    if not lively(sys.stdout):
        _lines(key, following)
        return
    last = None
    with Live(sys.stdout) as live:
        for last in following:
            if last.over:
                break
            _show(live, key, last)
    if last is None or last.rollout is None:
        raise NotFound(f"rollout {key} was deleted; see: nodepool-ocb rollout list")
    output.render(*rolling.parts(last.document(key)))


def _lines(key: Key, following: Iterator[RolloutView]) -> None:
    """A JSON object a line for the rollout, each group and each node, now and whenever it changes."""
    shown: dict[tuple[str, str], rows.WatchLine] = {}
    for view in following:
        if view.rollout is None:
            output.line(rows.DeletedRollout(rollout=str(key)))
            raise NotFound(f"rollout {key} was deleted; see: nodepool-ocb rollout list")
        for name, row in view.lines(key):
            if shown.get(name) != row:
                shown[name] = row
                output.line(row)
        if view.over:
            return


def _show(live: Live, key: Key, view: RolloutView) -> None:
    picture = tables.picture(view.document(key))
    table = output.picture(picture.groups, rolling.GROUP_COLUMNS, ("since", "critical"), live.width)
    live.show(picture.head, table, *([] if view.annealers else [NO_ANNEALER]))


# -- wait --


def wait(key: Key, timeout_seconds: float | None, fail_fast: bool = False) -> None:
    """Wait for the end of a rollout, and print its report: one document.

    Raises InError (failed, cancelled, paused), NotFound (deleted), or TimedOut.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    last: RolloutView | None = None
    now = RolloutProgress(None)
    ended: OcbError | None = None
    try:
        with waits.going_on(f"rollout {key}", lambda: f"rollout wait {key}"):
            for last in _shown(key, watching.views(performer(), key, deadline)):
                now = last.progress(fail_fast)
                if now.outcome:
                    ended = watching.error(key, now, last.rollout)
                    break
    except TimedOut:
        ended = TimedOut(f"rollout {key} goes on beyond the time-out; to wait on: nodepool-ocb rollout wait {key}")
    if last is not None and last.rollout is not None:
        outcome = "timeout" if isinstance(ended, TimedOut) else now.outcome
        report = last.reported(key)
        document = rows.AwaitedRollout(outcome, report.row, report.report)
        output.text(document, str(key) if output.chosen() == "name" else report.report)
    if ended is not None:
        raise ended


def _shown(key: Key, following: Iterator[RolloutView]) -> Iterator[RolloutView]:
    """With a picture that changes on a terminal; elsewhere a line for each group that has moved on, and how far it is."""
    with waits.LiveProgress() as progress:
        for view in following:
            if view.rollout is not None:
                _tell(progress, key, view)
            yield view


def _tell(progress: waits.LiveProgress, key: Key, view: RolloutView) -> None:
    no_annealer = [] if view.annealers or view.over else [NO_ANNEALER]
    document = view.document(key)
    now = tables.tally(document)
    if progress.width is None:
        progress.note([*view.moved(key), *no_annealer])
        progress.tell(now)
        return
    picture = tables.picture(document)
    table = output.picture(picture.groups, rolling.GROUP_COLUMNS, ("since", "critical"), progress.width)
    progress.tell(now, picture.head, table, *no_annealer)
