"""``rollout list`` and ``rollout show``; ``rollout wait``, up to the wait."""

from __future__ import annotations

import msgspec

from nodepool_ocb.model.executions import Key
from nodepool_ocb.operations.executions.watched import warn_of_no_annealer
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.executions import AnnealerRuns
from nodepool_ocb.operations.reads.rollouts import ListRollouts, ReadRolloutDriver
from nodepool_ocb.operations.rollouts import finding
from nodepool_ocb.views.rollouts import rows as shown
from nodepool_ocb.views.rollouts.rows import Reported, RolloutDocument, RolloutRow


class RolloutList(Operation[list[RolloutRow]], frozen=True, kw_only=True):
    """The newest ten rollouts of each deployment."""

    noun = "rollout"
    verb = "list"
    right = Right.VIEWER
    reads = (ListRollouts,)

    def decide(self, situation: Situation) -> Steps[list[RolloutRow]]:  # noqa: ARG002
        return (yield from rows())


def rows() -> Steps[list[RolloutRow]]:
    """The row of each rollout, by deployment, the newest first."""
    found = yield from ListRollouts()
    return [shown.row(Key(each.deployment, each.id), each.record, each.holder, each.groups) for each in found]


class ShownRollout(msgspec.Struct, frozen=True):
    """A rollout at one moment."""

    key: Key
    document: RolloutDocument
    reported: Reported | None = None  # if the report was asked for


class RolloutShow(Operation[ShownRollout], frozen=True, kw_only=True):
    """One rollout: its groups, and the nodes that failed. A note says if no annealer is running."""

    noun = "rollout"
    verb = "show"
    right = Right.VIEWER
    reads = (*finding.READS, ReadRolloutDriver, AnnealerRuns)

    rollout: str | None = None  # DEPLOYMENT, DEPLOYMENT/ID or an id; None: the newest
    deployment: str | None = None  # None: the only deployment with rollouts
    report: bool = False  # with each phase of each group, and each node by its state
    follow: bool = False  # ``executions.following`` follows it, and says if no annealer is running

    def decide(self, situation: Situation) -> Steps[ShownRollout]:  # noqa: ARG002
        key = yield from finding.find(self.rollout, self.deployment)
        found = yield from finding.load(key)
        driver = yield from ReadRolloutDriver(*key)
        if not found.over and not self.follow:
            yield from warn_of_no_annealer()
        document = shown.document(key, found, driver)
        return ShownRollout(key, document, shown.reported(document, found) if self.report else None)


class RolloutWait(Operation[Key], frozen=True, kw_only=True):
    """The rollout to wait for; ``executions.following`` follows it."""

    noun = "rollout"
    verb = "wait"
    right = Right.VIEWER
    reads = finding.READS

    rollout: str | None = None  # as in RolloutShow
    deployment: str | None = None

    def decide(self, situation: Situation) -> Steps[Key]:  # noqa: ARG002
        key = yield from finding.find(self.rollout, self.deployment)
        yield from finding.load(key)
        return key
