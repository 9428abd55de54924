"""The verbs that direct a rollout: ``cancel``, ``resume``, ``retry``, ``promote`` and ``accept``.

Each is one transaction. It changes the records from which the engine decides; the annealer that drives the rollout does the rest.
If a rollout with tasks goes on, the noderoles of its run are written in transactions before that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.executions.watched import NO_ANNEALER
from nodepool_ocb.operations.operation import Explained, Lookup, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.executions import AnnealerRuns
from nodepool_ocb.operations.reads.rollouts import (
    EnterLine,
    ReadRolloutDriver,
    ReadRolloutVersions,
    WithoutTaskRun,
)
from nodepool_ocb.operations.rollouts import finding
from nodepool_ocb.operations.tasks import reopening
from nodepool_ocb.rollout import commands, records
from nodepool_ocb.rollout.records import Decision, Rollout
from nodepool_ocb.views.rollouts import lines
from nodepool_ocb.views.rollouts import rows as shown
from nodepool_ocb.views.rollouts.rows import RolloutRow


class RolloutDirected(Explained, frozen=True, kw_only=True):
    """The answer of a verb that directs a rollout; ``explanations`` has a sentence for each decision."""

    row: RolloutRow | None = None  # the rollout after it; None in a dry run


class _Directing(Operation[RolloutDirected], frozen=True, kw_only=True):
    """The parts that these verbs share."""

    noun = "rollout"
    right = Right.OPERATOR
    reads: ClassVar[tuple[type[Lookup[Any]], ...]] = (
        *finding.FINDS,
        ReadRolloutVersions,
        ReadRolloutDriver,
        AnnealerRuns,
    )
    writes: ClassVar[tuple[str, ...]] = ("rollout", "run of tasks")

    rollout: str | None = None  # DEPLOYMENT, DEPLOYMENT/ID or an id; None: the newest
    deployment: str | None = None  # None: the only deployment with rollouts

    def decisions(self, rollout: Rollout, key: Key, situation: Situation) -> Sequence[Decision]:
        """The decisions to write; none if the rollout is so already. Raises Conflict."""
        raise NotImplementedError

    def decide(self, situation: Situation) -> Steps[RolloutDirected]:
        """Raises NotFound; Conflict if the verb does not fit, or if another rollout has to do with the same nodes."""
        key = yield from finding.find(self.rollout, self.deployment)
        found = yield from ReadRolloutVersions(*key)
        if found is None:
            raise NotFound(f"deployment {key.deployment} has no rollout {key.id}; see: nodepool-ocb rollout list")
        before, versions = found
        decisions = self._judged(before, key, situation)
        sentences = tuple(_sentence(key, each) for each in decisions)
        after = records.apply(before, decisions)
        if decisions:
            changes = commands.transaction(key, before, after, versions, situation.now)
            joined = (yield from _resumed(key, before, situation)) if before.over and not after.over else []
            yield [*changes, *joined]
        if situation.call.dry_run:
            return RolloutDirected(explanations=sentences)
        driver = yield from ReadRolloutDriver(*key)
        moves = after.over or (yield from AnnealerRuns())
        return RolloutDirected(
            explanations=sentences,
            row=shown.row(key, after.head, driver, after.groups),
            after=() if moves else (NO_ANNEALER,),
        )

    def _judged(self, rollout: Rollout, key: Key, situation: Situation) -> Sequence[Decision]:
        try:
            return self.decisions(rollout, key, situation)
        except Conflict as refused:
            if str(key) in str(refused):
                raise
            raise Conflict(f"{refused}; see: nodepool-ocb rollout show {key}") from None


def _resumed(key: Key, rollout: Rollout, situation: Situation) -> Steps[list[Change]]:
    """The changes that join the transaction by which a rollout that is over resumes; its run of tasks resumes with it."""
    entered = yield from EnterLine(key.deployment)
    run = rollout.head.task_run
    if run is None:
        return [*(yield from WithoutTaskRun(key.deployment)), *entered]
    return [*(yield from reopening.reopened(Key(key.deployment, run), situation)), *entered]


class _Resuming(_Directing, frozen=True, kw_only=True):
    """A verb after which a rollout that was over goes on: the noderoles of its run of tasks wait again."""

    reads = (*_Directing.reads, EnterLine, WithoutTaskRun, *reopening.READS)
    writes = (*_Directing.writes, "noderole")


class RolloutCancel(_Directing, frozen=True, kw_only=True):
    """Send no more work, take back the work that has not begun, and end the runs under way."""

    verb = "cancel"

    reason: str | None = None

    def decisions(self, rollout: Rollout, key: Key, situation: Situation) -> Sequence[Decision]:  # noqa: ARG002
        return commands.cancel(rollout, situation.now, situation.by, self.reason)


class RolloutResume(_Resuming, frozen=True, kw_only=True):
    """Go on with a rollout that was stopped or cancelled; failures stay."""

    verb = "resume"

    attempt: int = 1  # of the rollout, as the caller saw it

    def decisions(self, rollout: Rollout, key: Key, situation: Situation) -> Sequence[Decision]:  # noqa: ARG002
        return commands.resume(rollout, situation.now, situation.by, self.attempt)


class RolloutRetry(_Resuming, frozen=True, kw_only=True):
    """Send each failed node again, once the rollout is over."""

    verb = "retry"

    attempt: int = 1  # of the rollout, as the caller saw it

    def decisions(self, rollout: Rollout, key: Key, situation: Situation) -> Sequence[Decision]:
        if commands.nothing_failed(rollout):
            raise Conflict(f"nothing failed in rollout {key}; {lines.instead_of_retry(str(key))}")
        return commands.retry(rollout, situation.now, situation.by, self.attempt)


class RolloutPromote(_Directing, frozen=True, kw_only=True):
    """Let a group that pauses after a batch go on with the next batch."""

    verb = "promote"

    group: str
    batch: int  # after which it pauses
    attempt: int = 1  # of the group, as the caller saw it

    def decisions(self, rollout: Rollout, key: Key, situation: Situation) -> Sequence[Decision]:  # noqa: ARG002
        group = finding.group_of(rollout, self.group)
        return commands.promote(rollout, group, self.batch, situation.by, self.attempt)


class RolloutAccept(_Resuming, frozen=True, kw_only=True):
    """Let the failure of a group count as success."""

    verb = "accept"

    group: str
    reason: str
    attempt: int = 1  # of the group, as the caller saw it

    def decisions(self, rollout: Rollout, key: Key, situation: Situation) -> Sequence[Decision]:  # noqa: ARG002
        group = finding.group_of(rollout, self.group)
        return commands.accept(rollout, group, self.reason, situation.now, situation.by, self.attempt)


def _sentence(key: Key, decision: Decision) -> str:
    return f"{f'group {decision.name}' if decision.name else f'rollout {key}'}: {decision.reason}"
