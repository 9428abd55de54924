"""A rollout as it goes on, for ``rollout show --watch`` and ``rollout wait``. Pure: the read is yielded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from nodepool_ocb.errors import InError
from nodepool_ocb.model.executions import ROLLOUT, Key
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.operations.executions.watched import ExecutionEnd, ExecutionMoment, Watched, moment
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.executions import AnnealerRuns
from nodepool_ocb.operations.reads.rollouts import ReadRollout, ReadRolloutDriver
from nodepool_ocb.rollout.records import Rollout, RolloutState
from nodepool_ocb.views.progress import moved, of_rollout
from nodepool_ocb.views.rollouts import lines, rows
from nodepool_ocb.views.rollouts.rows import Reported, RolloutDocument, WatchLine


class RolloutView(NamedTuple):
    """A rollout at one moment."""

    rollout: Rollout
    holder: LockOwner | None

    @property
    def over(self) -> bool:
        return self.rollout.over

    def document(self, key: Key) -> RolloutDocument:
        """All of the rollout."""
        return rows.document(key, self.rollout, self.holder)

    def reported(self, key: Key) -> Reported:
        """The document with its report."""
        return rows.reported(self.document(key), self.rollout)

    def lines(self, key: Key) -> Iterator[tuple[tuple[str, str], WatchLine]]:
        """Everything that may change, by kind and name."""
        return rows.watched(key, self.rollout, self.holder)

    def moved(self) -> list[str]:
        """A sentence about each group that has begun."""
        return moved(self.rollout)


def read(key: Key) -> Steps[RolloutView | None]:
    """The rollout as it is; None if it is gone."""
    rollout = yield from ReadRollout(*key)
    return None if rollout is None else RolloutView(rollout, (yield from ReadRolloutDriver(*key)))


class RolloutWaitLook(Operation[ExecutionMoment[RolloutView]], frozen=True, kw_only=True):
    """One look at a rollout, for its wait and its watch."""

    noun = "rollout"
    verb = "wait"
    right = Right.VIEWER
    reads = (ReadRollout, ReadRolloutDriver, AnnealerRuns)

    key: Key

    def decide(self, situation: Situation) -> Steps[ExecutionMoment[RolloutView]]:  # noqa: ARG002
        return (yield from moment(read(self.key)))


#: Annealers come and go, so it ticks; all of a rollout is below its own znode.
WATCHED: Final = Watched(
    kind=ROLLOUT,
    read=read,
    look=lambda key: RolloutWaitLook(key=key),
    tick_seconds=5.0,
    rest_seconds=1.0,
    every_tick=False,
)


def end(key: Key, view: RolloutView, fail_fast: bool) -> ExecutionEnd | None:
    """The end of a wait, as far as it is known; with ``fail_fast`` as soon as a critical group has failed."""
    now, rollout = of_rollout(view.rollout, fail_fast), view.rollout
    if now.outcome is None:
        return None
    if now.outcome == RolloutState.SUCCESS:
        return ExecutionEnd(now.outcome, None)
    if now.group is not None:
        advice = lines.promote(str(key), rollout, now.group)
        return ExecutionEnd(now.outcome, InError(f"rollout {key}: {now.sentence}: {advice}"))
    sentence = now.sentence if now.sentence.startswith(now.outcome) else f"{now.outcome}: {now.sentence}"
    advice = f"; {lines.advice(str(key), rollout)}" if rollout.over else ""
    return ExecutionEnd(now.outcome, InError(f"rollout {key}: {sentence}{advice}"))
