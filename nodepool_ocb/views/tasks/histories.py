"""The outcome of every instance of a run: as rows, as a table, and as CSV."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from nodepool_ocb.views.view import View, plain

COLUMNS: Final = ("task", "node", "state", "queued", "started", "took", "exit_code", "why", "log")
FAILED: Final = ("failed", "not run")  # the states that --failed shows
#: The states of an instance, as they are counted.
ORDER: Final = ("failed", "not run", "running", "queued", "pending", "skipped", "successful")


class InstanceRow(View, frozen=True, kw_only=True):
    """A task on a node, in a run. Times are seconds since the epoch; None: not so far."""

    task: str
    node: str | None  # None: of a stage
    state: str
    queued: float | None = None
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    attempts: int = 0
    why: str | None = None  # why it failed, was skipped or was not run
    log: str | None = None  # HOST:FILE

    @property
    def name(self) -> str:
        """TASK@NODE; of a stage its own name."""
        return f"{self.task}@{self.node}" if self.node else self.task


class NamedInstance(View, frozen=True, kw_only=True):
    """The name of an instance."""

    name: str


class InstanceWords(View, frozen=True, kw_only=True):
    """A row for a table."""

    task: str
    node: str | None
    state: str
    queued: str | None
    started: str | None
    took: str | None
    exit_code: int | None
    why: str | None
    log: str | None


def chosen(
    rows: Iterable[InstanceRow], tasks: Collection[str] = (), nodes: Collection[str] = (), *, failed: bool = False
) -> list[InstanceRow]:
    """The rows of these tasks and on these nodes, by their start; instances that did not start are last."""
    found = [
        row
        for row in rows
        if (not tasks or row.task in tasks) and (not nodes or row.node in nodes) and (not failed or row.state in FAILED)
    ]
    return sorted(
        found, key=lambda row: (row.started is None, row.started or row.ended or 0.0, row.task, row.node or "")
    )


def words(row: InstanceRow) -> InstanceWords:
    """A row for a table: times of day, and how long it took."""
    took = row.ended - row.started if row.started is not None and row.ended is not None else None
    return InstanceWords(
        task=row.task,
        node=row.node,
        state=row.state,
        queued=clock(row.queued),
        started=clock(row.started),
        took=None if took is None else f"{max(0.0, took):.1f}s",
        exit_code=row.exit_code,
        why=row.why,
        log=row.log,
    )


def clock(moment: float | None) -> str | None:
    """A time of day, in local time: 12:34:56.789."""
    return None if moment is None else datetime.fromtimestamp(moment).strftime("%H:%M:%S.%f")[:-3]


def as_csv(rows: Sequence[InstanceRow]) -> str:
    """With a header; times as ISO 8601, UTC with Z."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(InstanceRow.__struct_fields__)
    for row in rows:
        shown = plain(row)
        for name in ("queued", "started", "ended"):
            moment = shown[name]
            shown[name] = (
                None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")
            )
        writer.writerow(shown.values())
    return written.getvalue()


def counted(states: Iterable[str]) -> dict[str, int]:
    """The number of instances in each state; failures are first.

    >>> counted(["successful", "failed", "successful"])
    {'failed': 1, 'successful': 2}
    """
    counts = Counter(states)
    return {state: counts[state] for state in (*ORDER, *sorted(counts.keys() - set(ORDER))) if counts[state]}
