"""The commands of people about a run of tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.engine import claim
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model.executions import ROLLOUT, TASK_RUN, Key
from nodepool_ocb.model.records import Change, LockOwner, RolloutPointer, State, TaskRunPointer
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, TaskRun
from nodepool_ocb.tasks.runs.states import TaskRunEvent, new_task_run, task_run_after

#: The fields of a run about its course, beside its state.
OF_ITS_COURSE: Final = ("ended", "reason", "counts", "stop", "stopped_by", "away", "aside", "resumed")


def numbered(deployment: str, number: str) -> Key:
    """The run with a number as people write it: ``3`` or ``0000000003``. Raises NotFound for another word."""
    if not number.isascii() or not number.isdecimal() or len(number) > 10:
        raise NotFound(f"{number!r} is not the number of a run; see: nodepool-ocb tasks history {deployment}")
    return Key(deployment, f"{int(number):010}")


def stop(run: Key, head: TaskRun, pointer: TaskRunPointer, sender: RolloutPointer, by: str, now: bool) -> TaskRun:
    """The run, asked to begin no more noderoles; ``now``: also to end those that run.

    ``sender`` is the pointer to the rollouts of its deployment. Raises Conflict if the run is over, or if a rollout under
    way sends it: that rollout would continue to send it.
    """
    if head.over or pointer.newest != run.id:
        raise Conflict(
            f"{TASK_RUN.name(run)} is over: {head.state}; for a new one: nodepool-ocb tasks run --deployment {run.deployment}"
        )
    if head.rollout is not None and sender.newest == head.rollout and not sender.over:
        rollout = Key(run.deployment, head.rollout)
        raise Conflict(
            f"{TASK_RUN.name(run)} is sent by {ROLLOUT.name(rollout)}, and ends with it;"
            f" to end both: nodepool-ocb rollout cancel {rollout}"
        )
    asked = "now" if now or head.stop == "now" else "asked"
    return replace(head, stop=asked, stopped_by=head.stopped_by or by, reason=head.reason or f"stopped by {by}")


def refuse_preparing(run: Key, holder: LockOwner | None) -> None:
    """Raises Conflict while a process prepares the run. Without a holder the preparation broke off, and does not count."""
    if holder is not None:
        process = f"{holder.daemon} on {holder.host}, process {holder.pid}"
        raise Conflict(
            f"{TASK_RUN.name(run)} is being prepared by {process}; wait for it; see: nodepool-ocb tasks runs {run.deployment}"
        )


def reopen(run: Key, head: TaskRun, pointer: TaskRunPointer) -> TaskRun:
    """The run of a rollout that resumes: its course begins anew. Raises Conflict if it is not the newest any more."""
    if pointer.newest != run.id or pointer.preparing is not None:
        later = Key(run.deployment, str(pointer.preparing or pointer.newest))
        raise Conflict(
            f"{TASK_RUN.name(later)} began after that of the rollout, {run}, and has its tasks now;"
            " begin another rollout: nodepool-ocb rollout start"
        )
    fresh = new_task_run(TaskRunEvent.BEGIN, virtual=head.virtual)
    return task_run_after(head, TaskRunEvent.REOPEN, **{each: getattr(fresh, each) for each in OF_ITS_COURSE})


def waiting_again(world: World, running: LoadedTaskRun) -> Iterator[list[Change]]:
    """For each PROPOSED noderole of the run the changes that let it wait again for its parents of the plan, without a
    reason.
    """
    from nodepool_ocb.tasks.runs.status import vertex_of  # here, so that a start of the command does not load it

    there = [vertex_of(world, running, at) for at in range(len(running.plan))]
    for at, vertex in enumerate(there):
        if vertex is None or vertex.record.state is not State.PROPOSED:
            continue
        above = (there[each] for each in running.plan.parents[at])
        parents = tuple(sorted(each.name for each in above if each is not None))
        wanted = vertex.record.amended(parents=parents, reason=None)
        if wanted != vertex.record:
            yield claim.writes(vertex, wanted)
