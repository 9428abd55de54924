"""``tasks run``: a task list is planned, and begun. Rollouts that send tasks begin their run here, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.executions.watched import warn_of_no_annealer
from nodepool_ocb.operations.operation import Note, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.executions import AnnealerRuns
from nodepool_ocb.operations.reads.tasks.runs import BeginTaskRun, ReadRunFacts
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.operations.tasks import planning, runs
from nodepool_ocb.operations.tasks.choosing import TaskChoice
from nodepool_ocb.operations.tasks.planning import PlannedTasks, PreparedRun
from nodepool_ocb.tasks.runs import merging
from nodepool_ocb.tasks.runs.records import Tolerance
from nodepool_ocb.views.tasks.runs import TaskRunRow

FACTS_FILE: Final = "/etc/astute.yaml"
NO_FILE: Final = "none"
BEGINS: Final = (BeginTaskRun, ReadRunFacts)  # the lookups of ``begin``
WRITES: Final = ("run of tasks", "role", "node", "noderole")


class TaskRunBegun(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of ``run``: the run; in a dry run the plan."""

    key: Key | None = None
    row: TaskRunRow | None = None
    plan: PlannedTasks | None = None


class TasksRun(Operation[TaskRunBegun], frozen=True, kw_only=True):
    """Run the task list of a deployment, or a part of it. Notes have warnings about the plan."""

    noun = "tasks"
    verb = "run"
    right = Right.OPERATOR
    reads = (ReadWorld, *planning.READS, *BEGINS, AnnealerRuns, *runs.ROWS)
    writes = WRITES

    deployment: str
    choice: TaskChoice = TaskChoice()
    facts_file: str | None = None  # on the nodes; "none": no file; None: the default, for a retry the file of then
    everything: bool = False  # the plan of a dry run has groups, stages and barriers, too

    def decide(self, situation: Situation) -> Steps[TaskRunBegun]:
        """Raises as ``prepare``; Conflict while another run of the deployment is under way; Invalid if nothing would run."""
        world = yield from ReadWorld()
        prepared = yield from planning.prepare(world, self.deployment, self.choice)
        if situation.call.dry_run:
            plan = yield from planning.planned(world, prepared, everything=self.everything)
            return TaskRunBegun(plan=plan)
        for warning in (yield from planning.warnings(world, prepared)):
            yield Note(f"note: {warning}")
        key = yield from begin(world, prepared, situation.by, self.facts_file)
        yield from warn_of_no_annealer()
        return TaskRunBegun(key=key, row=(yield from runs.row(key)))


def begin(
    world: World,
    prepared: PreparedRun,
    by: str,
    facts_file: str | None,
    tolerances: Sequence[Tolerance] | None = None,
) -> Steps[Key]:
    """Write a run and bind its noderoles. ``tolerances``: those of the rollout that sends it; None: no rollout does.

    Raises as ``BeginTaskRun``, and Invalid if nothing would run.
    """
    from nodepool_ocb.tasks.runs import making, naming  # here, so that a start of the command does not load it

    file = yield from _facts_file(prepared, facts_file)
    deployment, choice, rolled = prepared.deployment, prepared.choice, tolerances is not None
    taken = {name for name, view in world.nodes.items() if view.record and _of_others(world, name, deployment)}
    run, roles = making.run(
        deployment,
        merging.listed(prepared.tasks, prepared.parts),
        prepared.plan,
        virtual=naming.virtual(deployment, taken),
        facts=making.facts_task(file) if file else None,
        tolerances=list(making.tolerances(prepared.tasks, prepared.plan)) if tolerances is None else tolerances,
        held=rolled,
        by=by,
        noop=choice.noop,
        what=choice.words or None,
        again=prepared.again,
    )
    texts = [(f"{layer.origin}/{name}", text) for layer in prepared.stored.layers for name, text in layer.texts.items()]
    id = yield from BeginTaskRun(running=run, roles=roles, facts=_facts(prepared, file), texts=texts)
    return Key(deployment, id)


def _facts_file(prepared: PreparedRun, written: str | None) -> Steps[str | None]:
    """The file of facts on the nodes. If a call names none, a retry keeps that of the run that it goes on with."""
    if written is None and prepared.again is not None:
        found = yield from ReadRunFacts(prepared.deployment, prepared.again)
        kept: str | None = found.get("tasks", {}).get("facts_file")
        return kept
    return None if written == NO_FILE else written or FACTS_FILE


def _of_others(world: World, name: str, deployment: str) -> bool:
    node = world.nodes[name].record
    return node is not None and not (node.virtual and node.deployment == deployment)


def _facts(prepared: PreparedRun, facts_file: str | None) -> Mapping[str, Mapping[str, Json]]:
    """The facts for jigs, beside the inputs of the nodes."""
    shared = {"deployment": prepared.deployment, "noop": prepared.choice.noop, "facts_file": facts_file}
    return {**prepared.facts, "common": {**prepared.facts["common"], "tasks": shared}}
