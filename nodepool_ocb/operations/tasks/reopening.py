"""The run of tasks of a rollout that resumes."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from nodepool_ocb.errors import NotFound
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.executions import TASK_RUN, Key
from nodepool_ocb.model.records import Change, Check
from nodepool_ocb.operations.operation import Situation, Steps
from nodepool_ocb.operations.reads.tasks.status import AwaitTaskRunEnd, ReadTaskRunPlan
from nodepool_ocb.operations.reads.world import ReadWorldAgain
from nodepool_ocb.tasks.runs import commands

READS: Final = (AwaitTaskRunEnd, ReadTaskRunPlan, ReadWorldAgain)


def reopened(run: Key, situation: Situation) -> Steps[list[Change]]:
    """Let the noderoles of the run wait again, after its end. The answer: the changes that join the rollout's transaction.

    Raises Conflict if the run does not end, or is not the newest any more; NotFound if it is gone.
    """
    head, versions = yield from AwaitTaskRunEnd(*run)
    after = commands.reopen(run, head, versions.pointer)
    running = yield from ReadTaskRunPlan(*run)
    if running is None:
        raise NotFound(f"{TASK_RUN.name(run)} is gone; begin another rollout: nodepool-ocb rollout start")
    world = yield from ReadWorldAgain()
    held = Check(paths.task_runs(run.deployment), versions.version)
    for changes in limits.parts(commands.waiting_again(world, running), (held,)):
        yield [held, *changes]
    pointer = replace(versions.pointer, over=False, driver=None, since=situation.now)
    return TASK_RUN.asked(*run, {"": after}, pointer, versions)
