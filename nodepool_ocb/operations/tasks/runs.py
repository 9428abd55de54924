"""``tasks runs`` and ``tasks history``; ``tasks wait``, up to the wait.

A run is written ``DEPLOYMENT/ID``; the deployment alone means its newest.
"""

from __future__ import annotations

from typing import Final

import msgspec

from nodepool_ocb.errors import InError, NotFound
from nodepool_ocb.model.executions import TASK_RUN, Key
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.operations.executions.watched import ExecutionEnd, ExecutionMoment, Watched, moment
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.executions import AnnealerRuns
from nodepool_ocb.operations.reads.tasks.runs import ReadTaskRun
from nodepool_ocb.operations.reads.tasks.status import (
    ListTaskRuns,
    ReadDeploymentNames,
    ReadNewestTaskRun,
    ReadTaskRunDriver,
    ReadTaskRunVersions,
)
from nodepool_ocb.tasks.runs import commands
from nodepool_ocb.tasks.runs.records import TaskRun, TaskRunState
from nodepool_ocb.views.tasks import histories
from nodepool_ocb.views.tasks import runs as shown
from nodepool_ocb.views.tasks.histories import InstanceRow
from nodepool_ocb.views.tasks.runs import RunDocument, TaskRunRow

FINDS: Final = (ReadDeploymentNames, ReadNewestTaskRun)
READS: Final = (ReadTaskRun, ReadTaskRunDriver)
ROWS: Final = (ReadTaskRunVersions, ReadTaskRunDriver)  # the lookups of ``row``


class TaskRunView(msgspec.Struct, frozen=True):
    """A run at one moment; ``instances`` are without barriers."""

    key: Key
    head: TaskRun
    instances: list[InstanceRow]
    holder: LockOwner | None

    @property
    def over(self) -> bool:
        return self.head.over

    @property
    def row(self) -> TaskRunRow:
        return shown.row(self.key, self.head, self.holder)


# -- finding --


def find(written: str) -> Steps[Key]:
    """The run that ``DEPLOYMENT`` or ``DEPLOYMENT/ID`` means; leading zeros may be left out. Raises NotFound."""
    deployment, _, number = written.partition("/")
    yield from _refuse_unknown(deployment)
    if not number:
        newest = yield from ReadNewestTaskRun(deployment)
        if newest is None:
            advice = f"nodepool-ocb tasks run --deployment {deployment}"
            raise NotFound(f"no tasks were run in deployment {deployment}; first: {advice}")
        return Key(deployment, newest)
    return commands.numbered(deployment, number)


def _refuse_unknown(deployment: str) -> Steps[None]:
    known = yield from ReadDeploymentNames()
    if deployment not in known:
        raise unknown("deployment", deployment, known)


def missing(key: Key) -> NotFound:
    """The error for a run that does not exist."""
    return NotFound(f"there is no {TASK_RUN.name(key)}; see: nodepool-ocb tasks runs {key.deployment}")


def load(key: Key) -> Steps[TaskRunView]:
    """The run as it is now; raises NotFound."""
    found = yield from read(key)
    if found is None:
        raise missing(key)
    return found


# -- looking --


def read(key: Key) -> Steps[TaskRunView | None]:
    """The run as it is now; None if it is gone."""
    found = yield from ReadTaskRun(*key)
    if found is None:
        return None
    head, plan = found.running.head, found.running.plan
    instances = shown.instances(found.rows, {plan.tasks[each] for each in plan.barriers})
    return TaskRunView(key, head, instances, (yield from driver(key, head)))


def driver(key: Key, head: TaskRun) -> Steps[LockOwner | None]:
    """The annealer that drives a run; None for a run that is over."""
    if head.over:
        return None
    return (yield from ReadTaskRunDriver(*key))


class TasksWaitLook(Operation[ExecutionMoment[TaskRunView]], frozen=True, kw_only=True):
    """One look at a run of tasks, for its wait."""

    noun = "tasks"
    verb = "wait"
    right = Right.VIEWER
    reads = (*READS, AnnealerRuns)

    key: Key

    def decide(self, situation: Situation) -> Steps[ExecutionMoment[TaskRunView]]:  # noqa: ARG002
        return (yield from moment(read(self.key)))


#: Its noderoles are not below its own znode, so each tick reads them.
WATCHED: Final = Watched(
    kind=TASK_RUN,
    read=read,
    look=lambda key: TasksWaitLook(key=key),
    tick_seconds=1.0,
    rest_seconds=5.0,
    every_tick=True,
)


def end(view: TaskRunView) -> ExecutionEnd | None:
    """The end of a wait; None while the run goes on."""
    if not view.over:
        return None
    if view.head.state is TaskRunState.SUCCESSFUL:
        return ExecutionEnd(str(view.head.state), None)
    advice = f"to run the unsuccessful tasks again: nodepool-ocb tasks run --deployment {view.key.deployment} --retry"
    because = view.head.reason or "no reason was recorded"
    return ExecutionEnd(
        str(view.head.state), InError(f"{TASK_RUN.name(view.key)}: {view.head.state}: {because}; {advice}")
    )


def row(key: Key) -> Steps[TaskRunRow]:
    """A run at a glance; raises NotFound."""
    found = yield from ReadTaskRunVersions(*key)
    if found is None:
        raise missing(key)
    return shown.row(key, found[0], (yield from driver(key, found[0])))


def rows(deployment: str | None) -> Steps[list[TaskRunRow]]:
    """The runs at a glance: by deployment, the newest first. Raises NotFound."""
    if deployment is not None:
        yield from _refuse_unknown(deployment)
    found = []
    for each in (yield from ListTaskRuns(deployment)):
        key = Key(each.deployment, each.id)
        found.append(shown.row(key, each.head, (yield from driver(key, each.head))))
    return found


class TasksRuns(Operation[list[TaskRunRow]], frozen=True, kw_only=True):
    """The newest ten runs of a deployment, or of every deployment."""

    noun = "tasks"
    verb = "runs"
    right = Right.VIEWER
    reads = (ReadDeploymentNames, ListTaskRuns, ReadTaskRunDriver)

    deployment: str | None = None

    def decide(self, situation: Situation) -> Steps[list[TaskRunRow]]:  # noqa: ARG002
        return (yield from rows(self.deployment))


class TasksHistory(Operation[RunDocument], frozen=True, kw_only=True):
    """The outcome of each task on each node, in the order in which they began."""

    noun = "tasks"
    verb = "history"
    right = Right.VIEWER
    reads = (*FINDS, *READS)

    run: str  # DEPLOYMENT or DEPLOYMENT/ID
    tasks: tuple[str, ...] = ()  # none: all
    nodes: tuple[str, ...] = ()  # none: all
    failed: bool = False  # only failures, and instances that were not run

    def decide(self, situation: Situation) -> Steps[RunDocument]:  # noqa: ARG002
        found = yield from load((yield from find(self.run)))
        return RunDocument(
            found.row, tuple(histories.chosen(found.instances, self.tasks, self.nodes, failed=self.failed))
        )


class TasksWait(Operation[Key], frozen=True, kw_only=True):
    """The run to wait for; ``executions.following`` follows it."""

    noun = "tasks"
    verb = "wait"
    right = Right.VIEWER
    reads = (*FINDS, *READS)

    run: str  # as in TasksHistory

    def decide(self, situation: Situation) -> Steps[Key]:  # noqa: ARG002
        found = yield from load((yield from find(self.run)))
        return found.key
