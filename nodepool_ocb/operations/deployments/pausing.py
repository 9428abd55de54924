"""``deployment pause`` and ``resume``; of everything, as ``pause`` and ``resume``."""

from __future__ import annotations

from nodepool_ocb.engine import maintenance
from nodepool_ocb.engine.deployments import SYSTEM as SYSTEM
from nodepool_ocb.engine.recovery import restoring
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.model.records import Change, Set
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.daemons import ReadDaemons
from nodepool_ocb.operations.reads.pools import ReadPool
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.pool.states import PoolNodeEvent, pool_node_after
from nodepool_ocb.pool.views import PoolView


class PausedUntil(Explained, frozen=True, kw_only=True):
    """The answer of a pause."""

    until: float | None = None  # seconds since the epoch; None: until a person ends it
    lifts: tuple[tuple[str, str], ...] = ()  # each deployment as people call it, and the command that resumes it


class DeploymentPause(Operation[PausedUntil], frozen=True, kw_only=True):
    """Let nothing new begin in deployments and all below them; running noderoles go on to their end."""

    noun = "deployment"
    verb = "pause"
    right = Right.OPERATOR
    reads = (ReadWorld,)
    writes = ("deployment",)

    names: tuple[str, ...]
    reason: str
    until: float | None = None  # seconds since the epoch
    seconds: float | None = None  # from now; not beside ``until``

    def decide(self, situation: Situation) -> Steps[PausedUntil]:
        end = situation.end(self.until, self.seconds)
        world = yield from ReadWorld()
        for name in dict.fromkeys(self.names):
            deployment_of(world, name)
            if changes := maintenance.pause(world, name, situation.by, self.reason, situation.now, end):
                yield changes
        lifts = tuple((maintenance.deployment(name), maintenance.resuming(name)) for name in dict.fromkeys(self.names))
        return PausedUntil(until=end, lifts=lifts)


class PauseAll(DeploymentPause, frozen=True, kw_only=True):
    """Let nothing new begin anywhere: a pause of the deployment above all others."""

    noun = "pause"
    verb = ""

    names: tuple[str, ...] = (SYSTEM,)


class DeploymentResume(Operation[Explained], frozen=True, kw_only=True):
    """Let annealers go on in deployments that were paused."""

    noun = "deployment"
    verb = "resume"
    right = Right.OPERATOR
    reads = (ReadWorld,)
    writes = ("deployment",)

    names: tuple[str, ...]

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        world = yield from ReadWorld()
        for name in dict.fromkeys(self.names):
            deployment_of(world, name)
            if changes := maintenance.resume(world, name):
                yield changes
        return Explained()


class ResumeAll(DeploymentResume, frozen=True, kw_only=True):
    """Let annealers go on after ``pause``; a part that was paused by itself stays paused."""

    noun = "resume"
    verb = ""

    names: tuple[str, ...] = (SYSTEM,)


class RestoredCluster(Operation[Explained], frozen=True, kw_only=True):
    """State that ZooKeeper was restored from an older copy; before any daemon is started.

    Pauses everything, and raises all epochs, generations and ids above those of the lost time. Ready nodes of pools count as
    used, since the lost time may have used them.
    """

    noun = "restored"
    verb = ""
    right = Right.ADMIN
    reads = (ReadWorld, ReadDaemons, ReadPool)
    writes = ("deployment", "node", "noderole", "rollout", "run of tasks", "node of a pool")

    reason: str = "ZooKeeper was restored from an older copy"

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        daemons = yield from ReadDaemons()
        yield from restoring.restored(world, daemons.by_kind, situation.now, situation.by, self.reason)
        pool = yield from ReadPool()
        yield from limits.parts(limits.singly(_given_up(pool.view, situation.now, self.reason)))
        return Explained()


def _given_up(view: PoolView, now: float, reason: str) -> list[Change]:
    """Each ready node becomes a used one: in the lost time its machine may have been used, or deleted."""
    return [
        Set(
            paths.pool_node(each.id),
            pool_node_after(each.record, PoolNodeEvent.RETURN, now, reason=reason),
            each.version,
        )
        for each in view.nodes.values()
        if each.record.state is PoolNodeState.READY
    ]
