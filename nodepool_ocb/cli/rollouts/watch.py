"""A rollout as it goes on: ``rollout show --watch``, and the wait for its end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.live import Live, lively
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.cli.pictures import executions
from nodepool_ocb.cli.rollouts import rolling
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model.executions import ROLLOUT, Key
from nodepool_ocb.operations.executions.following import moments
from nodepool_ocb.operations.executions.watched import NO_ANNEALER, ExecutionEnd, ExecutionMoment, Watched
from nodepool_ocb.operations.rollouts import watching
from nodepool_ocb.operations.rollouts.watching import RolloutView
from nodepool_ocb.views.executions import Awaited
from nodepool_ocb.views.pictures.tally import Tally
from nodepool_ocb.views.rollouts import rows, tables

# -- show --watch --


def watch(key: Key) -> None:
    """Show it until it is over; raises NotFound when it is gone."""
    following = moments(performer(), watching.WATCHED, key, None)
    if not lively(sys.stdout):
        _lines(key, following)
        return
    last: RolloutView | None = None
    with Live(sys.stdout) as live:
        for moment in following:
            last = moment.found
            if last is None or last.over:
                break
            live.show(*_picture(last.document(key), live.width), *([] if moment.annealers else [NO_ANNEALER]))
    if last is None:
        raise NotFound(ROLLOUT.deleted(key))
    output.render(*rolling.parts(last.document(key)))


def _lines(key: Key, following: Iterator[ExecutionMoment[RolloutView]]) -> None:
    """A JSON object a line for the rollout, each group and each node, now and whenever it changes."""
    shown: dict[tuple[str, str], rows.WatchLine] = {}
    for moment in following:
        if moment.found is None:
            output.line(rows.DeletedRollout(rollout=str(key)))
            raise NotFound(ROLLOUT.deleted(key))
        for name, row in moment.found.lines(key):
            if shown.get(name) != row:
                shown[name] = row
                output.line(row)
        if moment.found.over:
            return


def _picture(document: rows.RolloutDocument, width: int) -> tuple[Any, ...]:
    drawn = tables.picture(document)
    return drawn.head, output.picture(drawn.groups, rolling.GROUP_COLUMNS, ("since", "critical"), width)


# -- wait --


class RolloutWaiting(msgspec.Struct, frozen=True):
    """A wait for the end of a rollout."""

    key: Key
    fail_fast: bool = False
    watched: ClassVar[Watched[RolloutView]] = watching.WATCHED

    def end(self, found: RolloutView) -> ExecutionEnd | None:
        return watching.end(self.key, found, self.fail_fast)

    def notes(self, found: RolloutView) -> list[str]:
        return found.moved()

    def tally(self, found: RolloutView) -> Tally:
        return tables.tally(found.document(self.key))

    def picture(self, found: RolloutView, width: int) -> tuple[Any, ...]:
        return _picture(found.document(self.key), width)

    def show(self, found: RolloutView, outcome: str) -> None:
        """Its report."""
        report = found.reported(self.key)
        output.text(Awaited(outcome, report), str(self.key) if output.chosen() == "name" else report.report)


def wait(key: Key, timeout_seconds: float | None, fail_fast: bool = False) -> None:
    """Wait for the end of a rollout, and print its report: one document.

    Raises InError (failed, cancelled, paused), NotFound (deleted), or TimedOut.
    """
    executions.wait(RolloutWaiting(key, fail_fast), timeout_seconds)
