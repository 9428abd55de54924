"""``rollout plan`` and ``rollout start``: a strategy with the nodes of a deployment, shown or carried out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.deployments import below
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import Check, Node
from nodepool_ocb.operations.executions.watched import warn_of_no_annealer
from nodepool_ocb.operations.operation import Note, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.executions import AnnealerRuns
from nodepool_ocb.operations.reads.rollouts import BeginRollout
from nodepool_ocb.operations.reads.tasks.status import StopTaskRun
from nodepool_ocb.operations.reads.world import ReadAttributes, ReadWorld
from nodepool_ocb.operations.rollouts import again, redeploying, refusing, selecting, stages, strategies
from nodepool_ocb.operations.rollouts.stages import StagedRollout
from nodepool_ocb.operations.tasks import planning as taskplanning
from nodepool_ocb.operations.tasks import running
from nodepool_ocb.rollout.plan import RolloutPlan
from nodepool_ocb.rollout.strategy import Strategy
from nodepool_ocb.views.rollouts import strategies as shown
from nodepool_ocb.views.rollouts.rows import RolloutRow, row
from nodepool_ocb.views.rollouts.strategies import RolloutPlanDocument

if TYPE_CHECKING:
    from nodepool_ocb.rollout.plan import Again
    from nodepool_ocb.rollout.records import Rollout

READS: Final = (ReadWorld, *selecting.READS, *taskplanning.READS)


class PlannedRollout(msgspec.Struct, frozen=True, kw_only=True):
    """A strategy with its nodes."""

    strategy: Strategy
    plan: RolloutPlan
    deployment: str
    inventory: str  # the version of the nodes
    virtual: str | None = None  # a sentence about virtual nodes, which are in no group
    losses: tuple[str, ...] = ()  # a sentence for each node that loses data
    problems: tuple[str, ...] = ()  # criteria that cannot be met, and parents after their children

    @property
    def notes(self) -> list[str]:
        """Sentences about the plan."""
        return [f"note: {each}" for each in shown.notes(self.strategy, self.plan)]

    @property
    def document(self) -> RolloutPlanDocument:
        """The plan as one document."""
        return RolloutPlanDocument(self.strategy.name, self.deployment, self.inventory, self.plan)


class RolloutPlanning(Operation[PlannedRollout], frozen=True, kw_only=True):
    """The nodes of each group of a strategy, and their order. Notes have warnings about the tasks that it sends."""

    noun = "rollout"
    verb = "plan"
    right = Right.VIEWER
    reads = READS

    strategy: Strategy | None = None  # None: one critical group of all nodes
    deployment: str | None = None  # None: the only one beside system
    selector: str | None = None  # only these nodes

    def decide(self, situation: Situation) -> Steps[PlannedRollout]:  # noqa: ARG002
        """Raises NotFound, Conflict, Invalid; Ambiguous if several deployments may be meant."""
        from nodepool_ocb.rollout import plan as planning

        strategy = self.strategy or strategies.whole()
        world = yield from ReadWorld()
        deployment = strategies.deployment_meant(world, self.deployment)
        nodes = yield from selecting.inventory(world, deployment, self.selector)
        plan, rollout = planning.plan(strategy, nodes), planning.begin(strategy, nodes, 0.0)
        yield from stages.remarks((yield from stages.planned(world, deployment, rollout)), world)
        planned = _planned(world, deployment, strategy, plan, rollout)
        return replace(planned, problems=_problems(world, planned, rollout))


class RolloutStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of ``start``: the rollout; or the plan alone, in a dry run and for a strategy without groups."""

    planned: PlannedRollout
    key: Key | None = None
    row: RolloutRow | None = None
    empty: bool = False  # the strategy has no groups


class RolloutStart(Operation[RolloutStarted], frozen=True, kw_only=True):
    """Carry out a strategy: an annealer commits PROPOSED noderoles, or runs ACTIVE ones again, one group after the other."""

    noun = "rollout"
    verb = "start"
    right = Right.OPERATOR
    reads = (
        *READS, *refusing.READS, *running.BEGINS, *redeploying.READS, ReadAttributes, BeginRollout, StopTaskRun, AnnealerRuns,
    )  # fmt: skip
    writes = ("rollout", *running.WRITES)

    strategy: Strategy
    deployment: str | None = None  # None: the only one beside system
    selector: str | None = None  # only these nodes
    refresh: tuple[str, ...] = ()  # run ACTIVE noderoles of these roles again, in place of PROPOSED ones
    changed: bool = False  # run outdated noderoles again
    redeploy: tuple[
        str, ...
    ] = ()  # run noderoles of these roles from the start, destructive ones too; beside the strategy's own
    force: bool = False  # also with criteria that cannot be met, or parents after their children
    facts_file: str | None = None  # as in TasksRun

    def decide(self, situation: Situation) -> Steps[RolloutStarted]:
        """Raises Conflict while a rollout or a run of tasks has to do with the same nodes, and if nothing would be sent."""
        from nodepool_ocb.rollout import plan as planning

        world = yield from ReadWorld()
        deployment = strategies.deployment_meant(world, self.deployment)
        unreadable.refuse_inventory(world)
        nodes: Mapping[str, Node] = yield from selecting.inventory(world, deployment, self.selector)
        plan = planning.plan(self.strategy, nodes)
        rerun = yield from self._again(world, deployment, nodes)
        rollout = planning.begin(self.strategy, nodes, situation.now, situation.by, rerun)
        planned = _planned(world, deployment, self.strategy, plan, rollout)
        if not rollout.groups:
            return RolloutStarted(planned=planned, empty=True)
        yield from refusing.refuse(world, deployment, rollout, situation.now)
        sending = yield from stages.planned(world, deployment, rollout)
        taken = yield from refusing.refuse_nothing(world, deployment, rollout, sending)
        yield from refusing.refuse_hopeless(_problems(world, planned, rollout), self.force)
        yield from stages.remarks(sending, world)
        if rerun is not None and rerun.redeploy:
            planned = replace(planned, losses=(yield from redeploying.lost(world, taken)))
        if situation.call.dry_run:
            return RolloutStarted(planned=planned)
        if rerun is not None and planned.losses:
            yield from redeploying.agreed(rerun, planned.losses, taken)
        yield from map(Note, [*planned.notes, *([planned.virtual] if planned.virtual else [])])
        begun = sending.rollout if sending is not None else rollout
        key = yield from self._begin(world, deployment, begun, sending, situation)
        yield from warn_of_no_annealer()
        return RolloutStarted(planned=planned, key=key, row=row(key, rollout.head, None, rollout.groups))

    def _again(self, world: World, deployment: str, nodes: Mapping[str, Node]) -> Steps[Again | None]:
        """The noderoles to run again; None if PROPOSED ones are to be committed. Raises Conflict for two kinds of these."""
        roles = tuple(dict.fromkeys([*self.strategy.redeploy, *self.redeploy]))
        if not roles:
            return (yield from again.chosen(world, deployment, nodes, self.refresh, self.changed))
        if self.refresh or self.changed:
            raise Conflict("a rollout either redeploys or refreshes; start one after the other")
        return (yield from redeploying.chosen(world, deployment, nodes, roles))

    def _begin(
        self, world: World, deployment: str, rollout: Rollout, sending: StagedRollout | None, situation: Situation
    ) -> Steps[Key]:
        """Write it, while its deployments stay committed; its run of tasks begins before it."""
        committed = [
            Check(paths.deployment(each), world.deployments[each].version) for each in below(world, deployment)
        ]
        if sending is None:
            id = yield from BeginRollout(deployment=deployment, rollout=rollout, judged=committed)
            return Key(deployment, id)
        run = yield from stages.begin(world, sending, situation, self.facts_file)
        rollout = replace(rollout, head=replace(rollout.head, task_run=run.id))
        try:
            id = yield from BeginRollout(deployment=deployment, rollout=rollout, judged=committed)
        except OcbError:
            yield from StopTaskRun(run=run)
            raise
        return Key(deployment, id)


def _planned(world: World, deployment: str, strategy: Strategy, plan: RolloutPlan, rollout: Rollout) -> PlannedRollout:
    return PlannedRollout(
        strategy=strategy,
        plan=plan,
        deployment=deployment,
        inventory=rollout.head.inventory,
        virtual=_virtual(world, deployment),
    )


def _problems(world: World, planned: PlannedRollout, rollout: Rollout) -> tuple[str, ...]:
    from nodepool_ocb.rollout import precedence

    late = precedence.late(world, planned.deployment, rollout)
    return (*shown.unmet(planned.plan), *shown.late(list(late)))


def _virtual(world: World, deployment: str) -> str | None:
    from nodepool_ocb.rollout.selectors import virtual

    left_out = virtual(world, deployment)
    if not left_out:
        return None
    many = counted(len(left_out), "virtual node is", "virtual nodes are")
    return (
        f"note: {many} in no group, since a rollout is about machines: {some(left_out)};"
        f" to commit PROPOSED noderoles there: nodepool-ocb node commit {left_out[0]}"
    )
