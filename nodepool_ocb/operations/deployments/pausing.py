"""``deployment pause`` and ``resume``; of everything, as ``pause`` and ``resume``."""

from __future__ import annotations

from nodepool_ocb.engine import maintenance
from nodepool_ocb.engine.deployments import SYSTEM as SYSTEM
from nodepool_ocb.engine.recovery import restoring
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.builders import ReadBuilders
from nodepool_ocb.operations.reads.world import ReadWorld


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

    Pauses everything, and raises all epochs, generations and ids above those of the lost time.
    """

    noun = "restored"
    verb = ""
    right = Right.ADMIN
    reads = (ReadWorld, ReadBuilders)
    writes = ("deployment", "node", "noderole", "rollout", "run of tasks")

    reason: str = "ZooKeeper was restored from an older copy"

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        builders = yield from ReadBuilders()
        yield from restoring.restored(world, builders, situation.now, situation.by, self.reason)
        return Explained()
