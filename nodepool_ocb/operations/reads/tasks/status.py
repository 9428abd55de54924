"""Runs of tasks: the list, the newest, the driver, and the versions that a transaction names."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from nodepool_ocb.errors import OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import TASK_RUN, Key, Versions
from nodepool_ocb.model.records import Change, LockOwner, RolloutPointer, TaskRunPointer
from nodepool_ocb.operations.operation import Lookup, Procedure, final
from nodepool_ocb.operations.reads.executions import ReadDriver, ReadNewest, newest_first
from nodepool_ocb.tasks.runs import commands
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, TaskRun

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.store.tasks.runs import ListedTaskRun


class ReadDeploymentNames(Lookup[list[str]], frozen=True):
    """The names of all deployments."""

    records = "deployments"

    def answer(self, reader: Reader) -> list[str]:
        reader.session.sync()
        return reader.session.children(paths.DEPLOYMENTS) or []


class ListTaskRuns(Lookup["list[ListedTaskRun]"], frozen=True):
    """The runs of a deployment, or of every deployment; by deployment, the newest first. Broken records are left out."""

    records = "runs of tasks"

    deployment: str | None = None

    def answer(self, reader: Reader) -> list[ListedTaskRun]:
        from nodepool_ocb.store.tasks import runs

        return newest_first(runs.list_(reader.session, None if self.deployment is None else [self.deployment]))


class ReadNewestTaskRun(ReadNewest, frozen=True):
    """The id of a deployment's newest run of tasks."""

    kind, records = TASK_RUN, "runs of tasks"


class ReadTaskRunDriver(ReadDriver, frozen=True):
    """The annealer that drives a run of tasks."""

    kind, records = TASK_RUN, "locks of runs of tasks"


class ReadTaskRunVersions(Lookup["tuple[TaskRun, Versions[TaskRunPointer]] | None"], frozen=True):
    """The record of a run of tasks, with the versions that a transaction on it names; None if there is none."""

    records = "runs of tasks"

    deployment: str
    identity: str

    def answer(self, reader: Reader) -> tuple[TaskRun, Versions[TaskRunPointer]] | None:
        from nodepool_ocb.store.driven.executions import TASK_RUNS

        known, version = TASK_RUNS.pointer(reader.session, self.deployment)
        found = TASK_RUNS.head(reader.session, self.deployment, self.identity)
        return None if found is None else (found[1], Versions(known, version, {"": found[0].version}))


class AwaitTaskRunEnd(Lookup["tuple[TaskRun, Versions[TaskRunPointer]]"], frozen=True):
    """As ``ReadTaskRunVersions``, once the run is over: it waits for that.

    Raises Conflict if the run does not end within seconds, NotFound if it is gone.
    """

    records = "runs of tasks"

    deployment: str
    identity: str

    def answer(self, reader: Reader) -> tuple[TaskRun, Versions[TaskRunPointer]]:
        from nodepool_ocb.store.tasks import rolled

        return rolled.ended(reader.session, self.deployment, self.identity)


class ReadTaskRunPlan(Lookup["LoadedTaskRun | None"], frozen=True):
    """A run of tasks with its plan; None if it does not exist or was never begun.

    Raises Invalid if a part of it is broken, Conflict if it changes on and on.
    """

    records = "runs of tasks"

    deployment: str
    identity: str

    def answer(self, reader: Reader) -> LoadedTaskRun | None:
        from nodepool_ocb.store.tasks import runs

        with final():
            found = runs.read(reader.session, self.deployment, self.identity)
        return None if found is None else found[0]


class ReadSender(Lookup[RolloutPointer], frozen=True):
    """The newest rollout of a deployment: it may send the tasks of a run."""

    records = "rollouts"

    deployment: str

    def answer(self, reader: Reader) -> RolloutPointer:
        from nodepool_ocb.store.driven.executions import ROLLOUTS

        return ROLLOUTS.pointer(reader.session, self.deployment)[0]


class BrokenPreparation(msgspec.Struct, frozen=True):
    """A run with a preparation that broke off, or that goes on."""

    pointer: TaskRunPointer
    version: int
    holder: LockOwner | None  # the process that prepares it; None: the preparation broke off
    deletions: Sequence[Change]  # of the run


class ReadPreparation(Lookup["BrokenPreparation | None"], frozen=True):
    """The run that is being prepared in a deployment; None if there is none."""

    records = "runs of tasks, locks of runs of tasks"

    deployment: str

    def answer(self, reader: Reader) -> BrokenPreparation | None:
        from nodepool_ocb.store.driven import pointers
        from nodepool_ocb.store.tasks import runs

        known, version = runs.pointer(reader.session, self.deployment)
        if known.preparing is None:
            return None
        holder = runs.preparer(reader.session, self.deployment, known)
        path = paths.task_run(self.deployment, known.preparing)
        return BrokenPreparation(known, version, holder, pointers.removal(reader.session, path))


class StopTaskRun(Procedure[None], frozen=True, kw_only=True):
    """Ask for the end of a run with a rollout that did not begin. ``tasks stop`` ends it as well, so errors are left out."""

    run: Key

    def carry_out(self, reader: Reader) -> None:
        from nodepool_ocb.store.driven.pointers import again

        with contextlib.suppress(OcbError):
            again(lambda: self._write(reader))

    def _write(self, reader: Reader) -> None:
        found = ReadTaskRunVersions(*self.run).answer(reader)
        if found is not None:
            head, versions = found
            sender = ReadSender(self.run.deployment).answer(reader)
            after = commands.stop(self.run, head, versions.pointer, sender, reader.performer.call.login, now=False)
            pointer = replace(versions.pointer, since=reader.session.now())
            reader.session.commit(TASK_RUN.asked(*self.run, {"": after}, pointer, versions))
