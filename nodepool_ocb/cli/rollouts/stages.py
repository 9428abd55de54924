"""Rollouts with phases that name stages of the deployment's task list: planned for each group by itself, and begun.

The tasks are those of a run of their own, which is *held*: only the rollout commits them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid, OcbError
from nodepool_ocb.model.executions import Key
from nodepool_ocb.rollout import criteria, precedence
from nodepool_ocb.tasks.runs import naming, uniting
from nodepool_ocb.tasks.runs.records import Tolerance

if TYPE_CHECKING:
    from nodepool_ocb.operations.tasks.planning import PreparedRun
    from nodepool_ocb.rollout.records import Rollout
    from nodepool_ocb.store.client.session import Session

SENDS_BYTES: Final = 200 * 1024  # of the names of roles in the record of a rollout, as JSON


class Sending(msgspec.Struct, frozen=True):
    """A rollout that sends tasks, before it begins."""

    rollout: Rollout  # with what each phase sends; its run has no id yet
    prepared: PreparedRun

    @property
    def unsent(self) -> list[str]:
        """The tasks that no phase sends."""
        plan = self.prepared.plan
        found = (at for at, why in plan.skipped.items() if why == uniting.UNSENT)
        return list(dict.fromkeys(plan.tasks[plan.task_of[at]] for at in sorted(found)))

    @property
    def waiting(self) -> int:
        """How many instances of tasks it sends."""
        plan = self.prepared.plan
        return sum(1 for at, node in enumerate(plan.node_of) if plan.nodes[node] and at not in plan.skipped)


def named(rollout: Rollout) -> bool:
    """Whether a phase names stages."""
    return any(phase.stages for phase in rollout.head.strategy.phases)


def planned(opened: Session, world: World, deployment: str, rollout: Rollout) -> Sending:
    """The deployment's task list for each part of the rollout by itself.

    Raises NotFound for a list or a stage that does not exist. Raises Invalid if the list is wrong on these nodes or too large
    for the record. It also raises Invalid if nodes wait for one another that may not be in flight together.
    """
    from nodepool_ocb.operations.tasks import planning
    from nodepool_ocb.operations.tasks.choosing import TaskChoice

    if rollout.head.again is not None:
        raise Invalid(
            "--changed and --refresh run ACTIVE noderoles again, and tasks need a new run; leave the stages away"
        )
    phases = {phase.name: phase.stages for phase in rollout.head.strategy.phases if phase.stages}
    turns = planning.TaskTurns(precedence.parts(rollout), phases)
    prepared = performer().read(planning.prepare(world, deployment, TaskChoice(), turns), opened)
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
    return Sending(replace(rollout, head=head), prepared)


def _refuse_limits(rollout: Rollout, prepared: PreparedRun) -> None:
    """A node that is held back keeps those in flight waiting that wait for it in the same phase."""
    plan, limited, parts = prepared.plan, list(precedence.limited(rollout)), precedence.parts(rollout)
    nodes = {node for part in limited for node in parts[part]}
    waiting = uniting.waiting_across(plan, list(prepared.sends.values()), nodes) if nodes else None
    if waiting is not None:
        first, then = map(plan.name, waiting)
        raise Invalid(
            f"not all nodes of {some(sorted(limited))} may be in flight at once, and {then} waits for {first} in the same phase,"
            " perhaps for ever; leave the limits away (parallel_nodes, max_in_flight), use batches, or name a stage between the"
            " two in a phase before"
        )


def remark(opened: Session, sending: Sending, world: World) -> None:
    """Prints notes about the plan on stderr."""
    from nodepool_ocb.operations.tasks import planning

    for warning in performer().read(planning.warnings(world, sending.prepared), opened):
        output.say(f"note: {warning}")
    many = counted(sending.waiting, "instance")
    output.say(f"note: {many} of tasks to run on {counted(len(sending.prepared.members), 'node')}")
    if sending.unsent:
        left = counted(len(sending.unsent), "task is", "tasks are")
        output.say(f"note: {left} before no stage that a phase names, and not run: {some(sending.unsent)}")


def begin(opened: Session, world: World, sending: Sending, facts_file: str | None) -> tuple[Rollout, Key]:
    """Begin the run, which waits for the rollout; gives the rollout that names it."""
    from nodepool_ocb.operations.tasks import running

    tolerances = _tolerances(sending.rollout)
    key = performer().read(running.begin(world, sending.prepared, session.me(), facts_file, tolerances), opened)
    rollout = sending.rollout
    return replace(rollout, head=replace(rollout.head, task_run=key.id)), key


def _tolerances(rollout: Rollout) -> list[Tolerance]:
    """The number of nodes of a group that may fail, so that tasks that wait for all its nodes go on."""
    most = {
        name: criteria.bearable(rollout.groups[name].group.success_criteria, len(members))
        for name, members in rollout.members.items()
    }
    return [Tolerance(name, most[name], members) for name, members in rollout.members.items() if members]


def give_up(opened: Session, key: Key) -> None:
    """The rollout did not begin: nor does its run."""
    from nodepool_ocb.store.tasks import runs

    with contextlib.suppress(OcbError):  # `tasks stop` ends it as well
        runs.stop(opened, *key, session.me(), now=False)


def refuse_run(opened: Session, deployment: str) -> None:
    """Raises Conflict while a run of tasks of the deployment is under way."""
    from nodepool_ocb.store.tasks import rolled

    rolled.alone(opened, deployment)
