"""Runs of tasks, as they are driven. The driver writes the decisions of ``tasks.runs.deciding``, one transaction at a time.

A transaction holds the run to the version that was read (store.tasks.runs). When nothing moves any more the records of all
runs of its noderoles are read, some at a time, and the history is written before the run is over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import claim, commands
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import TASK_RUN
from nodepool_ocb.model.records import Change, RolloutPointer, Run, TaskRunPointer
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.tasks import runs
from nodepool_ocb.store.tasks.runs import Versions
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb.tasks.runs import history
from nodepool_ocb.tasks.runs.deciding import TaskRunDecision, decide
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, Table
from nodepool_ocb.tasks.runs.status import RunStatus
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.driving.work import DrivingStep
from nodepool_ocb_annealer.timer_kinds import TimerKind

READ_AT_ONCE: Final = 2000  # records of runs


class DrivenTaskRun(msgspec.Struct, frozen=True):
    """A run of tasks as its driver knows it."""

    running: LoadedTaskRun
    versions: Versions
    nodes: frozenset[str]
    start: int = 0  # the part of the plan before it is committed
    read: Mapping[str, Run] | None = None  # of the history that is being written, by path

    @property
    def deployment(self) -> str:
        return self.running.deployment

    @property
    def id(self) -> str:
        return self.running.id

    @property
    def name(self) -> str:
        return self.running.name

    @property
    def over(self) -> bool:
        return self.running.head.over

    @property
    def pointer(self) -> TaskRunPointer:
        return self.versions.pointer

    @property
    def version(self) -> int:
        return self.versions.version


class TaskRuns:
    """Runs of tasks, for their drivers."""

    what = "run of tasks"
    timer_kind = TimerKind.TASK_RUN
    root = paths.TASK_RUNS

    def __init__(self, session: Session) -> None:
        self._session = session

    def pointers(self, world: World) -> Mapping[str, Stored[TaskRunPointer]]:
        return world.task_runs

    def concerns(self, touched: ChangeSet) -> bool:
        return touched.has(TaskRunPointer, RolloutPointer)  # the end of a rollout is that of its run

    def lock(self, deployment: str, identity: str) -> str:
        return paths.task_run_lock(deployment, identity)

    def read(self, deployment: str, identity: str) -> DrivenTaskRun | None:
        found = runs.read(self._session, deployment, identity)
        if found is None:
            return None
        running, versions = found
        return DrivenTaskRun(running, versions, frozenset({*running.plan.nodes, running.head.virtual}))

    def move(
        self,
        world: World,
        driven: DrivenTaskRun,
        now: float,
        quarantined: Iterable[str],  # noqa: ARG002
    ) -> DrivingStep[DrivenTaskRun]:
        decision = decide(world, driven.running, now, driven.start)
        if decision.record:
            return self._end(world, driven, now)
        after = replace(driven, running=replace(driven.running, head=decision.head), start=decision.start)
        head = _heads(driven, after, now)
        changes = next(_moved(world, driven, decision, head, now), None)
        if changes is None:
            changes = [] if decision.head == driven.running.head else head
        return DrivingStep(changes, _written(after, changes), decision.due, lines=_lines(driven, after))

    def _end(self, world: World, driven: DrivenTaskRun, now: float) -> DrivingStep[DrivenTaskRun]:
        """Read the missing parts of the history; when it is complete, write it and the end of the run."""
        look = RunStatus(world, driven.running, now)
        known = driven.read or {}
        unread = [path for path in history.wanted(look) if path not in known]
        if unread:
            found = runs.ended_runs(self._session, unread[:READ_AT_ONCE])
            gone = dict.fromkeys(unread[:READ_AT_ONCE], _GONE)
            driven = replace(driven, read={**known, **gone, **found})
            if len(unread) > READ_AT_ONCE:
                return DrivingStep((), driven, due=now)
        read = {path: run for path, run in (driven.read or {}).items() if run is not _GONE}
        rows = list(history.rows(look, read))
        parts = runs.keep_history(self._session, driven.running, rows, driven.version)
        head = history.ended(driven.running, look, rows, now)
        head = replace(head, parts={**head.parts, Table.HISTORY: parts})
        after = replace(driven, running=replace(driven.running, head=head))
        changes = _heads(driven, after, now)
        return DrivingStep(changes, _written(after, changes), lines=_lines(driven, after))

    def nodes(self, driven: DrivenTaskRun) -> frozenset[str]:
        return driven.nodes

    def count(self, driven: int) -> None:
        metrics.TASK_RUNS_DRIVEN.set(driven)

    def took(self, seconds: float) -> None:
        metrics.TASK_RUN_STEP_SECONDS.observe(seconds)

    def wrote(self) -> None:
        metrics.TASK_RUN_WRITES.inc()


#: In the place of the record of a run that cannot be read.
_GONE: Final = Run(annealer="", started=0.0, ended=0.0, outcome="unknown", generation=0, epoch=0)


def _heads(driven: DrivenTaskRun, after: DrivenTaskRun, now: float) -> list[Change]:
    before = driven.running
    return runs.heads(driven.deployment, driven.id, before.head, after.running.head, driven.versions, now)


def _moved(
    world: World, driven: DrivenTaskRun, decision: TaskRunDecision, together: Sequence[Change], now: float
) -> Iterator[list[Change]]:
    """The first transaction of the decisions, with the checks of the run; only the first may be taken."""
    for move in decision.moves:
        yield from commands.apply_to(world, move.vertices, move.event, now, driven.name, move.reason, together)
    if decision.rewritten:
        records = claim.Records(together)
        for vertex, record in decision.rewritten.items():
            if not records.take(vertex, record):
                break
        yield records.changes


def _written(after: DrivenTaskRun, changes: Sequence[Change]) -> DrivenTaskRun:
    """It, with the versions that hold once the changes are written."""
    versions = TASK_RUN.written(after.deployment, after.id, after.versions, changes)
    return replace(after, versions=versions)


def _lines(driven: DrivenTaskRun, after: DrivenTaskRun) -> list[tuple[int, str]]:
    before, head = driven.running.head, after.running.head
    if head.state == before.state:
        return []
    return [(logging.INFO, f"{head.state}" + (f": {head.reason}" if head.reason else ""))]
