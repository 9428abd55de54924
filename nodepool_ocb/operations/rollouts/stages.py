"""Rollouts with phases that name stages of the deployment's task list: planned for each group by itself, and begun.

The tasks are those of a run of their own, which is *held*: only the rollout commits its noderoles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.executions import Key
from nodepool_ocb.operations.operation import Note, Situation, Steps
from nodepool_ocb.operations.tasks import planning, running
from nodepool_ocb.operations.tasks.choosing import TaskChoice
from nodepool_ocb.operations.tasks.planning import PreparedRun
from nodepool_ocb.rollout import criteria, precedence
from nodepool_ocb.rollout.records import Rollout
from nodepool_ocb.tasks.runs import merging, naming
from nodepool_ocb.tasks.runs.records import Tolerance

SENDS_BYTES: Final = 200 * 1024  # of the names of roles in the record of a rollout, as JSON


class StagedRollout(msgspec.Struct, frozen=True):
    """A rollout that sends tasks, before it begins."""

    rollout: Rollout  # with the roles that each phase sends; its run has no id yet
    prepared: PreparedRun

    @property
    def unsent(self) -> list[str]:
        """The tasks that no phase sends."""
        plan = self.prepared.plan
        found = (at for at, why in plan.skipped.items() if why == merging.UNSENT)
        return list(dict.fromkeys(plan.tasks[plan.task_of[at]] for at in sorted(found)))

    @property
    def waiting(self) -> int:
        """The number of instances of tasks that it sends."""
        plan = self.prepared.plan
        return sum(1 for at, node in enumerate(plan.node_of) if plan.nodes[node] and at not in plan.skipped)


def planned(world: World, deployment: str, rollout: Rollout) -> Steps[StagedRollout | None]:
    """The deployment's task list for each part of the rollout by itself; None if no phase names a stage.

    Raises NotFound for an unknown list or stage. Raises Invalid if the list is wrong on these nodes, is too large for the
    record, or lets nodes wait for one another that may not be in flight together.
    """
    phases = {phase.name: phase.stages for phase in rollout.head.strategy.phases if phase.stages}
    if not phases:
        return None
    if rollout.head.again is not None:
        raise Invalid(
            "--changed and --refresh run ACTIVE noderoles again, and tasks need a new run; leave the stages away"
        )
    turns = planning.TaskTurns(precedence.parts(rollout), phases)
    prepared = yield from planning.prepare(world, deployment, TaskChoice(), turns)
    _refuse_limits(rollout, prepared)
    roles = {phase: tuple(naming.role(deployment, task) for task in tasks) for phase, tasks in prepared.sends.items()}
    if (size := len(msgspec.json.encode(roles))) > SENDS_BYTES:
        many = counted(sum(map(len, roles.values())), "task")
        raise Invalid(
            f"the stages have {many}, and their names take {size // 1024} KiB, of which a rollout may keep"
            f" {SENDS_BYTES // 1024}; name fewer stages, and run the rest with: nodepool-ocb tasks run"
        )
    may_fail = [task.id for task in prepared.tasks.tasks if not task.fail_on_error]
    head = replace(rollout.head, sends=roles, may_fail=tuple(naming.role(deployment, task) for task in may_fail))
    return StagedRollout(replace(rollout, head=head), prepared)


def _refuse_limits(rollout: Rollout, prepared: PreparedRun) -> None:
    """Raises Invalid if a limit may hold back a node for which nodes in flight wait in the same phase."""
    plan, limited, parts = prepared.plan, list(precedence.limited(rollout)), precedence.parts(rollout)
    nodes = {node for part in limited for node in parts[part]}
    waiting = merging.waiting_across(plan, list(prepared.sends.values()), nodes) if nodes else None
    if waiting is not None:
        first, then = map(plan.name, waiting)
        raise Invalid(
            f"not all nodes of {some(sorted(limited))} may be in flight at once, and {then} waits for {first} in the same phase,"
            " perhaps for ever; leave the limits away (parallel_nodes, max_in_flight), use batches, or name a stage between the"
            " two in a phase before"
        )


def remarks(sending: StagedRollout | None, world: World) -> Steps[None]:
    """Notes about the tasks that a rollout sends."""
    if sending is not None:
        for warning in (yield from planning.warnings(world, sending.prepared)):
            yield Note(f"note: {warning}")
        yield from map(Note, _counts(sending))


def _counts(sending: StagedRollout) -> Iterator[str]:
    many = counted(sending.waiting, "instance")
    yield f"note: {many} of tasks to run on {counted(len(sending.prepared.members), 'node')}"
    if sending.unsent:
        left = counted(len(sending.unsent), "task is", "tasks are")
        yield f"note: {left} before no stage that a phase names, and not run: {some(sending.unsent)}"


def begin(world: World, sending: StagedRollout, situation: Situation, facts_file: str | None) -> Steps[Key]:
    """Begin the run, which waits for the rollout."""
    tolerances = _tolerances(sending.rollout)
    return (yield from running.begin(world, sending.prepared, situation.by, facts_file, tolerances))


def _tolerances(rollout: Rollout) -> list[Tolerance]:
    """The number of nodes of a group without which tasks that wait for all of them go on, by its criteria."""
    most = {
        name: criteria.bearable(rollout.groups[name].group.success_criteria, len(members))
        for name, members in rollout.members.items()
    }
    return [Tolerance(name, most[name], members) for name, members in rollout.members.items() if members]
