"""``tasks graph``: the tasks of a list, or their instances on the nodes of a deployment, with their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodepool_ocb.errors import Ambiguous
from nodepool_ocb.model.executions import Key
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.tasks.status import ReadNewestTaskRun
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.operations.tasks import lists, planning, runs
from nodepool_ocb.operations.tasks.choosing import TaskChoice
from nodepool_ocb.tasks.tasklist import TaskKind
from nodepool_ocb.views.tasks import drawing, plans
from nodepool_ocb.views.tasks.drawing import Drawing

REMOVABLE: Final = (*map(str, (TaskKind.GROUP, TaskKind.STAGE, TaskKind.SKIPPED)), plans.BARRIER)


class TasksGraph(Operation[Drawing], frozen=True, kw_only=True):
    """A graph: the tasks of a release, or the instances of a deployment with their states in its newest run."""

    noun = "tasks"
    verb = "graph"
    right = Right.VIEWER
    reads = (ReadWorld, *planning.READS, ReadNewestTaskRun, *runs.READS)

    release: str | None = None
    deployment: str | None = None
    tasks_only: bool = False  # of a deployment: the tasks, without nodes
    choice: TaskChoice = TaskChoice()
    parents_for: str | None = None  # only this task, and all before it
    remove: tuple[str, ...] = ()  # types that are left out; the rest keeps its order
    tred: bool = False  # without edges that others imply

    def decide(self, situation: Situation) -> Steps[Drawing]:  # noqa: ARG002
        """Raises NotFound, Conflict, Invalid; Ambiguous if options exclude one another."""
        refuse_contradictions(self.release, self.deployment, self.choice, tasks_only=self.tasks_only)
        return _filtered((yield from self._drawn()), self.parents_for, frozenset(self.remove), tred=self.tred)

    def _drawn(self) -> Steps[Drawing]:
        if self.deployment is None or self.tasks_only:
            found = yield from lists.loaded(lists.owner(self.release, self.deployment))
            drawn = drawing.of_list(found.tasks)
            return drawing.marked(drawn, self.choice.selection) if self.choice.selection else drawn
        world = yield from ReadWorld()
        prepared = yield from planning.prepare(world, self.deployment, self.choice)
        return drawing.of_plan(prepared.plan, prepared.tasks, (yield from _states(self.deployment)))


def refuse_contradictions(release: str | None, deployment: str | None, choice: TaskChoice, *, tasks_only: bool) -> None:
    """Raises Ambiguous unless one list is named, and for a choice of instances from a list without nodes."""
    choice.refuse_contradictions()
    of = lists.owner(release, deployment)
    if (not of.deployment or tasks_only) and choice.of_instances:
        raise Ambiguous(f"{choice.words}: chooses instances; give --deployment without --tasks-only")


def _states(deployment: str) -> Steps[Mapping[str, str]]:
    """The state of each instance in the newest run, by its name; empty if there is none."""
    newest = yield from ReadNewestTaskRun(deployment)
    found = (yield from runs.read(Key(deployment, newest))) if newest is not None else None
    return {row.name: row.state for row in found.instances} if found is not None else {}


def _filtered(drawn: Drawing, parents_for: str | None, remove: frozenset[str], *, tred: bool) -> Drawing:
    if parents_for:
        drawn = drawing.above(drawn, parents_for)
    if remove:
        skipped = str(TaskKind.SKIPPED) in remove
        drawn = drawing.without(drawn, lambda corner: corner.type in remove or (skipped and corner.skipped is not None))
    return drawing.reduced(drawn) if tred else drawn
