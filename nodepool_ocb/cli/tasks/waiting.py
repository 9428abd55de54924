"""A run of tasks as it goes on, until its end: ``tasks wait``, and ``tasks run --wait``."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.pictures import executions
from nodepool_ocb.model.executions import TASK_RUN, Key
from nodepool_ocb.operations.executions.watched import ExecutionEnd, Watched
from nodepool_ocb.operations.tasks import runs
from nodepool_ocb.operations.tasks.runs import TaskRunView
from nodepool_ocb.views.executions import Awaited
from nodepool_ocb.views.pictures.tally import Tally
from nodepool_ocb.views.tasks import histories
from nodepool_ocb.views.tasks import runs as shown

LIVE: Final = 30  # instances in a picture
MOST_FAILED: Final = 20  # that are named while it goes on
SPARE: Final = (
    "queued",
    "exit_code",
    "took",
    "started",
)  # columns that a picture on a narrow terminal leaves out, in turn


class TaskRunWaiting(msgspec.Struct, frozen=True):
    """A wait for the end of a run of tasks."""

    key: Key
    watched: ClassVar[Watched[TaskRunView]] = runs.WATCHED

    def end(self, found: TaskRunView) -> ExecutionEnd | None:
        return runs.end(found)

    def notes(self, found: TaskRunView) -> list[str]:
        """The failures."""
        return shown.failed(found.instances)[:MOST_FAILED]

    def tally(self, found: TaskRunView) -> Tally:
        return shown.tally(found.instances)

    def picture(self, found: TaskRunView, width: int) -> tuple[Any, ...]:
        """Running and failed instances first."""
        rows = sorted(histories.chosen(found.instances), key=lambda row: shown.LIVELY.index(row.state))[:LIVE]
        table = output.picture(list(map(histories.words, rows)), histories.COLUMNS[:-1], SPARE, width)
        return f"{TASK_RUN.name(self.key)}: {found.head.state}", table

    def show(self, found: TaskRunView, outcome: str) -> None:
        """The run, and the instances that did not succeed."""
        bad = histories.chosen(found.instances, failed=True)
        document = Awaited(outcome, shown.RunDocument(found.row, tuple(bad)))
        failures = [output.table(map(histories.words, bad), histories.COLUMNS)] if bad else []
        output.thing(document, str(self.key), fields(found.row), *failures)


def wait(key: Key, timeout_seconds: float | None) -> None:
    """Wait for the end of a run, and print the outcome of each task that did not succeed: one document.

    Raises InError (failed, stopped), NotFound (deleted), or TimedOut.
    """
    executions.wait(TaskRunWaiting(key), timeout_seconds)


def fields(row: shown.TaskRunRow) -> Any:
    """A run at a glance, for people."""
    return output.fields(shown.words(row), but=("started",))
