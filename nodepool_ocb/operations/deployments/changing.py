"""``deployment create``, ``propose``, ``commit``, ``wait`` and ``checks``."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.engine import deployments, drift, unreadable
from nodepool_ocb.engine.deployments import SYSTEM
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.drift import Checks
from nodepool_ocb.model.records import DeploymentState
from nodepool_ocb.operations.commits import committing, reservations
from nodepool_ocb.operations.commits.committing import Committed
from nodepool_ocb.operations.names import bound_in, deployment_of
from nodepool_ocb.operations.operation import AwaitedNoderoles, Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld


class DeploymentCreate(Operation[Explained], frozen=True, kw_only=True):
    """Make a deployment, PROPOSED."""

    noun = "deployment"
    verb = "create"
    right = Right.OPERATOR
    reads = (ReadWorld,)
    writes = ("deployment",)

    name: str
    parent: str = SYSTEM

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        deployment_of(world, self.parent)
        yield deployments.create(world, self.name, self.parent, situation.now, situation.by)
        return Explained()


class DeploymentPropose(Operation[Explained], frozen=True, kw_only=True):
    """Keep annealers out of the deployment, so that people can change it."""

    noun = "deployment"
    verb = "propose"
    right = Right.OPERATOR
    reads = (ReadWorld, *reservations.READS)
    writes = ("deployment",)

    name: str

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        deployment_of(world, self.name)
        changes = deployments.turn(world, self.name, DeploymentState.PROPOSED, situation.now, situation.by)
        if changes:
            yield changes
        after = yield from ReadWorld()
        yield from reservations.warn(
            after,
            self.name,
            "the noderoles that it has sent wait until the deployment is committed, and the time of its phases runs on;"
            f" to let annealers in again: nodepool-ocb deployment commit {self.name} --no-noderoles",
        )
        return Explained()


class DeploymentCommit(Operation[Committed], frozen=True, kw_only=True):
    """Commit the PROPOSED noderoles of the deployment, run outdated ones again, and let annealers work in it.

    Refused without ``force`` if a rollout under way reserves one of them.
    """

    noun = "deployment"
    verb = "commit"
    right = Right.OPERATOR
    reads = committing.READS
    writes = ("deployment", *committing.WRITES)

    name: str
    alone: bool = False  # its noderoles are left to a rollout
    force: bool = False

    def decide(self, situation: Situation) -> Steps[Committed]:
        world = yield from ReadWorld()
        bound = bound_in(world, self.name)
        deploymentroles.refuse_commit(world, self.name)
        unreadable.refuse_commit(world, bound, {vertex.node.name for vertex in bound} | _nodes(world, self.name))
        answer = Committed()
        if not self.alone:
            answer = yield from committing.commit(world, situation, bound, self.force)
        if self.name != SYSTEM:  # at the end: annealers find all of it committed
            changes = deployments.turn(world, self.name, DeploymentState.COMMITTED, situation.now, situation.by)
            if changes:
                yield changes
        return replace(answer, chosen=(self.name,))

    def awaited(self, answer: Committed) -> AwaitedNoderoles:  # noqa: ARG002
        """All noderoles of the deployment."""
        return AwaitedNoderoles(deployment=self.name)


class DeploymentWait(Operation[None], frozen=True, kw_only=True):
    """The deployment to wait for."""

    noun = "deployment"
    verb = "wait"
    right = Right.VIEWER
    reads = (ReadWorld,)

    name: str

    def decide(self, situation: Situation) -> Steps[None]:  # noqa: ARG002
        world = yield from ReadWorld()
        deployment_of(world, self.name)

    def awaited(self, answer: None = None) -> AwaitedNoderoles:  # noqa: ARG002
        """All noderoles of the deployment."""
        return AwaitedNoderoles(deployment=self.name)


class DeploymentChecks(Operation[Explained], frozen=True, kw_only=True):
    """Have ACTIVE noderoles checked by a schedule, also in deployments below that have none of their own."""

    noun = "deployment"
    verb = "checks"
    right = Right.OPERATOR
    reads = (ReadWorld,)
    writes = ("deployment",)

    name: str
    schedule: str | None = None  # minute, hour, day, month, weekday, in UTC; None: that of the deployment above
    refresh: bool = False  # run drifted noderoles again in place

    def __post_init__(self) -> None:
        if self.schedule is not None and (why := wrong_schedule(self.schedule)):
            raise Invalid(why)

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        deployment_of(world, self.name)
        wanted = None
        if self.schedule is not None:
            wanted = Checks(schedule=self.schedule, since=situation.now, refresh=self.refresh)
        if changes := deployments.checked_by(world, self.name, wanted):
            yield changes
        return Explained()


def wrong_schedule(text: str) -> str | None:
    """The fault of a schedule; None if it has none."""
    return drift.wrong(text)


def _nodes(world: World, name: str) -> set[str]:
    return {view.name for view in world.nodes.values() if view.record and view.record.deployment == name}
