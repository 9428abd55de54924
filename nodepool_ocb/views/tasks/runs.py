"""Runs of tasks: one a row, one with its failures, and the progress of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from nodepool_ocb.model.executions import Key as Key
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.tasks.runs.records import TaskRun
from nodepool_ocb.views import executions
from nodepool_ocb.views.pictures.tally import Tally
from nodepool_ocb.views.tasks import histories
from nodepool_ocb.views.tasks.histories import InstanceRow
from nodepool_ocb.views.view import View, Whole

if TYPE_CHECKING:
    from nodepool_ocb.tasks.runs.history import HistoryRow

#: States in the order of a watch.
LIVELY: Final = ("running", "failed", "not run", "queued", "successful", "pending", "skipped")


class TaskRunRow(View, frozen=True, kw_only=True):
    """A run at a glance."""

    run: str  # DEPLOYMENT/ID
    state: str
    what: str | None  # the selection, as options
    started: float
    ended: float | None
    by: str | None
    nodes: int
    instances: int  # that are to run
    counts: Mapping[str, int]  # outcome → instances, when it is over
    driver: Whole[LockOwner] | None
    reason: str | None
    again: str | None  # the run that it goes on with
    rollout: str | None  # DEPLOYMENT/ID of the rollout that sends its tasks
    noop: bool


class RunDocument(View, frozen=True):
    """A run with its instances."""

    row: TaskRunRow
    instances: tuple[InstanceRow, ...]


class RunWords(View, frozen=True, kw_only=True):
    """A run for a table."""

    run: str
    state: str
    what: str | None
    started: float
    took: str | None
    by: str | None
    nodes: int
    instances: int
    counts: str | None
    driver: str | None
    rollout: str | None
    reason: str | None


def row(key: Key, head: TaskRun, holder: LockOwner | None) -> TaskRunRow:
    """A run and its driver."""
    return TaskRunRow(
        run=str(key),
        state=str(head.state),
        what=head.what,
        started=head.started,
        ended=head.ended,
        by=head.by,
        nodes=head.nodes,
        instances=sum(head.counts.values()) - head.skipped if head.over else head.vertices,
        counts=head.counts,
        driver=executions.driver(holder),
        reason=executions.reason(head.reason, head.aside, head.over),
        again=head.again,
        rollout=str(Key(key.deployment, head.rollout)) if head.rollout else None,
        noop=head.noop,
    )


def words(row: TaskRunRow) -> RunWords:
    """A row for a table."""
    counts = {state: row.counts[state] for state in histories.ORDER if row.counts.get(state)}
    return RunWords(
        run=row.run,
        state=row.state,
        what=row.what,
        started=row.started,
        took=None if row.ended is None else f"{max(0.0, row.ended - row.started):.0f}s",
        by=row.by,
        nodes=row.nodes,
        instances=row.instances,
        counts=", ".join(f"{count} {state}" for state, count in counts.items()) or None,
        driver=executions.driver_words(row.driver),
        rollout=row.rollout,
        reason=row.reason,
    )


def instances(rows: Iterable[HistoryRow], quiet: Iterable[str] = ()) -> list[InstanceRow]:
    """The instances with their outcomes; ``quiet`` are tasks that are left out, such as barriers."""
    left_out = frozenset(quiet)
    return [_instance(each) for each in rows if each.task not in left_out]


def _instance(each: HistoryRow) -> InstanceRow:
    return InstanceRow(
        task=each.task,
        node=each.node or None,
        state=str(each.outcome),
        queued=each.queued,
        started=each.started,
        ended=each.ended,
        exit_code=each.exit_code,
        attempts=each.attempts,
        why=each.reason,
        log=each.log,
    )


def failed(rows: Iterable[InstanceRow]) -> list[str]:
    """A sentence for each instance that failed on a node, with the reason. Instances that did not run are left out."""
    failures = (row for row in rows if row.node and row.state == "failed")
    return [f"{row.name}: failed{f': {row.why}' if row.why else ''}" for row in failures]


def tally(rows: Iterable[InstanceRow]) -> Tally:
    """The number of instances in each state, without those that are skipped."""
    counts = histories.counted(row.state for row in rows if row.state != "skipped")
    return Tally("successful", {state: counts[state] for state in ("successful", *LIVELY) if state in counts})
