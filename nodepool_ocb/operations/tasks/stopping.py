"""``tasks stop``: no task of a run begins any more."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.executions import TASK_RUN, Key
from nodepool_ocb.model.records import Set
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.tasks.status import (
    ReadPreparation,
    ReadSender,
    ReadTaskRunDriver,
    ReadTaskRunVersions,
)
from nodepool_ocb.operations.tasks import runs
from nodepool_ocb.tasks.runs import commands
from nodepool_ocb.views.tasks import runs as shown
from nodepool_ocb.views.tasks.runs import TaskRunRow


class RunStopped(Explained, frozen=True, kw_only=True):
    """The answer of a stop."""

    row: TaskRunRow | None = None  # the run after it; None if a preparation was ended


class TasksStop(Operation[RunStopped], frozen=True, kw_only=True):
    """Begin no more tasks of a run; or end a preparation that broke off, so that its noderoles are free."""

    noun = "tasks"
    verb = "stop"
    right = Right.OPERATOR
    reads = (*runs.FINDS, ReadPreparation, ReadTaskRunVersions, ReadSender, ReadTaskRunDriver)
    writes = ("run of tasks", "facts of a run of tasks")

    run: str  # DEPLOYMENT or DEPLOYMENT/ID
    now: bool = False  # end the tasks that run, too

    def decide(self, situation: Situation) -> Steps[RunStopped]:
        """Raises NotFound; Conflict if the run is over, is being prepared, or is sent by a rollout under way."""
        if "/" not in self.run and (cleared := (yield from cleared_preparation(self.run))) is not None:
            return cleared
        key = yield from runs.find(self.run)
        return (yield from stopped(key, situation, self.now))


def cleared_preparation(deployment: str) -> Steps[RunStopped | None]:
    """End a preparation that broke off; None if there is none. Raises Conflict while a process prepares the run."""
    found = yield from ReadPreparation(deployment)
    if found is None or found.pointer.preparing is None:
        return None
    key = Key(deployment, found.pointer.preparing)
    commands.refuse_preparing(key, found.holder)
    freed = Set(paths.task_runs(deployment), replace(found.pointer, preparing=None), found.version)
    yield from limits.parts(limits.singly([freed, *found.deletions]))
    return RunStopped(notes=(f"the preparation of {TASK_RUN.name(key)} broke off; nothing of it will run",))


def stopped(key: Key, situation: Situation, now: bool) -> Steps[RunStopped]:
    """Ask for the end of a run; raises NotFound, and Conflict as ``commands.stop`` does."""
    found = yield from ReadTaskRunVersions(*key)
    if found is None:
        raise runs.missing(key)
    head, versions = found
    sender = yield from ReadSender(key.deployment)
    after = commands.stop(key, head, versions.pointer, sender, situation.by, now)
    if after != head:
        pointer = replace(versions.pointer, since=situation.now)
        yield TASK_RUN.asked(*key, {"": after}, pointer, versions)
    return RunStopped(row=shown.row(key, after, (yield from runs.driver(key, after))))
