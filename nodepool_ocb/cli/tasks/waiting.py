"""A run of tasks as it goes on, until its end: ``tasks wait``, and ``tasks run --wait``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.cli.pictures import waits
from nodepool_ocb.cli.tasks import running
from nodepool_ocb.cli.tasks.running import TaskRunSnapshot
from nodepool_ocb.errors import InError, NotFound, OcbError, TimedOut
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import Key
from nodepool_ocb.operations.following import Following
from nodepool_ocb.views.tasks import histories
from nodepool_ocb.views.tasks import runs as shown

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

TICK_SECONDS: Final = 1.0  # noderoles are looked at so often
SHARE: Final = 4  # times as long as a read took nothing is read
LIVE: Final = 30  # instances in a picture
MOST_FAILED: Final = 20  # that are named while it goes on
SPARE: Final = (
    "queued",
    "exit_code",
    "took",
    "started",
)  # columns that a picture on a narrow terminal leaves out, in turn


class _TaskRunSource:
    """One run, for Following: read whole at every tick, and whenever its head changes."""

    def __init__(self, key: Key, opened: Session, wake: Callable[[], None]) -> None:
        self._key, self._opened, self._wake = key, opened, wake
        self._took_seconds = 0.0
        self.run: TaskRunSnapshot | None = None
        self.annealers = False

    def load(self) -> bool:
        for path in (paths.task_run(*self._key), paths.daemons("annealer")):
            self._opened.watch(path, lambda *_: self._wake())
        return self.sweep()

    def refresh(self) -> bool:
        time.sleep(min(5.0, SHARE * self._took_seconds))
        return self.sweep()

    def sweep(self) -> bool:
        begun = time.monotonic()
        self.run = running.read(self._opened, self._key)
        self.annealers = bool(self._opened.children(paths.daemons("annealer")))
        self._took_seconds = time.monotonic() - begun
        return True


def wait(key: Key, timeout_seconds: float | None) -> None:
    """Wait for the end of a run, and print its result: one document.

    Raises InError (failed, stopped), NotFound (deleted), or TimedOut.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    last: TaskRunSnapshot | None = None
    ended: OcbError | None = NotFound(f"tasks run {key} was deleted")
    try:
        with waits.going_on(f"tasks run {key}", lambda: f"tasks wait {key}"):
            for last in _shown(key, _runs(key, deadline)):
                if last is None or last.head.over:
                    break
        ended = _error(key, last)
    except TimedOut:
        ended = TimedOut(f"tasks run {key} goes on beyond the time-out; to wait on: nodepool-ocb tasks wait {key}")
    if last is not None:
        outcome = "timeout" if isinstance(ended, TimedOut) else str(last.head.state)
        bad = histories.chosen(last.instances, failed=True)
        document = shown.AwaitedTaskRun(outcome, shown.RunDocument(last.row, tuple(bad)))
        parts = [output.fields(shown.words(last.row), but=("started",))]
        output.thing(
            document, str(key), *parts, *([output.table(map(histories.words, bad), running.COLUMNS)] if bad else [])
        )
    if ended is not None:
        raise ended


def _error(key: Key, run: TaskRunSnapshot | None) -> OcbError | None:
    if run is None:
        return NotFound(f"tasks run {key} was deleted")
    if run.head.state == "successful":
        return None
    advice = f"to run the unsuccessful tasks again: nodepool-ocb tasks run --deployment {key.deployment} --retry"
    return InError(f"tasks run {key}: {run.head.state}: {run.head.reason or 'no reason was recorded'}; {advice}")


def _runs(key: Key, deadline: float | None) -> Iterator[TaskRunSnapshot | None]:
    made: list[_TaskRunSource] = []

    def make(opened: Session, wake: Callable[[], None]) -> _TaskRunSource:
        made.append(_TaskRunSource(key, opened, wake))
        return made[0]

    said = False
    for _ in Following(performer(), deadline).changes(make, TICK_SECONDS):
        if not made[0].annealers and not said:
            output.say(running.NOBODY)
        said = not made[0].annealers
        yield made[0].run


def _shown(key: Key, runs: Iterator[TaskRunSnapshot | None]) -> Iterator[TaskRunSnapshot | None]:
    """Shows progress and failures: in a picture that changes on a terminal, elsewhere in lines."""
    with waits.LiveProgress() as progress:
        for run in runs:
            if run is not None:
                _tell(progress, key, run)
            yield run


def _tell(progress: waits.LiveProgress, key: Key, run: TaskRunSnapshot) -> None:
    """Prints the running tasks and the first failure."""
    now = shown.tally(run.instances)
    if progress.width is None:
        progress.note(shown.failed(run.instances)[:MOST_FAILED])
        progress.tell(now)
        return
    rows = sorted(histories.chosen(run.instances), key=lambda row: shown.LIVELY.index(row.state))[:LIVE]
    table = output.picture(list(map(histories.words, rows)), running.COLUMNS[:-1], SPARE, progress.width)
    progress.tell(now, f"tasks run {key}: {run.head.state}", table)
