"""Groups and the rollout: they begin, pass phases and batches, pause, succeed and fail (seed 003, "Process").

The rules, in prose:

- A group with a failed dependency has failed, with any criteria; nothing of it is sent. Once the dependency is accepted or
  retried, it waits again.
- Groups begin in the order of the document as their dependencies succeed, ``parallel_groups`` at a time.
- A batch takes all phases one after the other. When all its nodes in a phase are at rest, the criteria are evaluated over *all*
  members, sent by any group. Before the last batch, the percentage is evaluated over the batches so far. A criterion that
  cannot be met any more fails the group then, too. A group that fails in a phase is not sent in the next.
- A phase that runs out of time fails its group, or is evaluated (``on_timeout``). If a phase began in the future, by a clock
  that was wrong, its time begins to count when that is noticed.
- While its deployment is paused no group begins, and no phase runs out of time.
- A critical group that fails stops or cancels the rollout if its strategy says so; too many failed nodes cancel it.
- The rollout is over when every group is, and no node is in flight. It has failed if a critical group has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.model.skew import ahead
from nodepool_ocb.rollout import groups
from nodepool_ocb.rollout.criteria import Count
from nodepool_ocb.rollout.observation import Seen
from nodepool_ocb.rollout.records import (
    CANCELLED,
    DEPENDENCY,
    IN_FLIGHT,
    LOST,
    REASONS,
    STOPPED,
    Decision,
    GroupRecord,
    GroupState,
    NodeState,
    Rollout,
    RolloutState,
    brief,
    cancelled,
)
from nodepool_ocb.rollout.states.groups import GroupEvent, group_after
from nodepool_ocb.rollout.states.rollouts import RolloutEvent, rollout_after
from nodepool_ocb.rollout.strategy import OnTimeout, Reaction

GS, RS = GroupState, RolloutState
ENDED: Final = frozenset({GS.SUCCESS, GS.FAILED})
AT_WORK: Final = frozenset({GS.RUNNING, GS.PAUSED})


def decide(rollout: Rollout, seen: Mapping[str, Seen], now: float) -> list[Decision]:
    """The decisions about groups and about the rollout, until nothing changes."""
    if rollout.over:
        return []
    deciding = _Deciding(rollout, now)
    deciding.run()
    if not deciding.made:
        deciding.end(seen)
    return deciding.made


class _Deciding:
    """The decisions about a rollout; each one sees those before it."""

    def __init__(self, rollout: Rollout, now: float) -> None:
        self._rollout = rollout
        self._now = now
        self._phases = rollout.head.strategy.phases
        self._head = rollout.head
        self._groups = dict(rollout.groups)
        self._turns = max((record.turn for record in self._groups.values()), default=0)
        self._busy = sum(record.state in AT_WORK for record in self._groups.values())
        self._at_rest: dict[str, tuple[GroupRecord, RolloutState]] = {}  # groups at work that stay where they are
        self.made: list[Decision] = []

    def run(self) -> None:
        """Make the first possible move, and begin a group only if there is no other move.

        Decisions leave no trace except the records. So if a part of them was written, the next step decides the rest.
        """
        self._trip()
        self._react()
        while any(self._move(name) for name in self._groups) or any(self._begin(name) for name in self._groups):
            pass

    def end(self, seen: Mapping[str, Seen]) -> None:
        """The rollout is over when all groups are, nothing is in flight, and nothing is left to be taken back or ended."""
        if any(record.state not in ENDED for record in self._groups.values()):
            return
        by_person = cancelled(self._head)
        for name, progress in self._rollout.nodes.items():
            there = seen.get(name)
            ended = progress.state is NodeState.UNKNOWN or (by_person and progress.state is NodeState.FAILURE)
            pending = ended and there is not None and (there.waiting or there.running)
            if progress.state in IN_FLIGHT or pending:
                return
        bad = [name for name, record in self._groups.items() if record.group.critical and groups.failed(record)]
        if by_person:
            self._turn(RolloutEvent.CANCELLED, self._head.reason or "cancelled")
        elif bad:
            self._turn(RolloutEvent.FAIL, self._cause(bad))
        elif self._head.state is RS.CANCELLING:
            self._turn(RolloutEvent.FAIL, self._head.reason or "the breaker tripped")
        else:
            self._turn(RolloutEvent.SUCCEED, "every critical group succeeded")

    def _cause(self, bad: Sequence[str]) -> str:
        """Why these critical groups failed: the group that failed first, among them and their dependencies."""
        queue, above = list(bad), dict.fromkeys(bad)
        for name in queue:
            failed = [each for each in self._groups[name].group.depends_on if groups.failed(self._groups[each])]
            queue += [each for each in failed if each not in above]
            above |= dict.fromkeys(failed)
        first = min(above, key=lambda name: _when(self._groups[name]))
        record = self._groups[first]
        what = f"{'critical ' if record.group.critical else ''}group {first} failed"
        if bad == [first]:
            return brief(f"{what}: {record.detail}")
        return brief(f"{what} first: {record.detail}; critical groups that failed: {some(bad)}")

    # -- the rollout --

    def _turn(self, event: RolloutEvent, reason: str) -> None:
        self._head = rollout_after(self._head, event, self._now, reason=reason)
        self.made.append(Decision("", self._head, f"{self._head.state}: {reason}"))

    def _trip(self) -> None:
        """The breaker."""
        breaker = self._head.strategy.breaker
        allowed, percent = breaker.maximum_failed_nodes, breaker.maximum_failed_percent
        if (allowed is None and percent is None) or self._head.state not in (RS.RUNNING, RS.STOPPING):
            return
        count = sum(progress.state in LOST for progress in self._rollout.nodes.values()) - self._head.breaker_offset
        message = f"the breaker tripped: {count} of {counted(self._head.nodes, 'node')} failed, and no more than"
        if allowed is not None and count > allowed:
            self._turn(RolloutEvent.TRIP, f"{message} {allowed} may")
        elif percent is not None and count * 100 > percent * self._head.nodes:
            self._turn(RolloutEvent.TRIP, f"{message} {percent} percent may")

    def _react(self) -> None:
        """Stop or cancel, where a critical group failed that asks for it."""
        for name, record in self._groups.items():
            if not record.group.critical or not groups.failed(record) or name in self._head.ignored_failures:
                continue
            reaction = record.group.on_critical_failure or self._head.strategy.on_critical_failure
            if reaction is Reaction.CANCEL and self._head.state in (RS.RUNNING, RS.STOPPING):
                self._turn(RolloutEvent.GIVE_UP, f"critical group {name} failed")
            elif reaction is Reaction.STOP and self._head.state is RS.RUNNING:
                self._turn(RolloutEvent.STOP, f"critical group {name} failed")

    # -- a group --

    def _move(self, name: str) -> bool:
        """One move of a group; False if it stays."""
        record = self._groups[name]
        match record.state:
            case GS.NOT_STARTED:
                return self._wait(name, record)
            case GS.RUNNING:
                return self._at_rest.get(name) != (record, self._head.state) and self._work(name, record)
            case GS.PAUSED:
                return self._pause(name, record)
            case GS.FAILED:
                return self._reopen(name, record)
        return False

    def _put(self, name: str, record: GroupRecord, reason: str) -> bool:
        before = self._groups[name]
        self._busy += (record.state in AT_WORK) - (before.state in AT_WORK)
        self._groups[name] = record
        self.made.append(Decision(name, record, reason))
        if groups.failed(record):
            self._react()
        return True

    def _fail(self, name: str, record: GroupRecord, reason: str, detail: str, unmet: tuple[str, ...] = ()) -> bool:
        turn = {} if record.turn else self._next_turn()
        after = self._after(record, GroupEvent.FAIL, reason=reason, detail=detail, unmet=unmet, accepted=None, **turn)
        return self._put(name, after, f"failed ({reason}): {detail}")

    def _after(self, record: GroupRecord, event: GroupEvent, **fields: Any) -> GroupRecord:
        return group_after(record, event, self._now, **fields)

    def _next_turn(self) -> dict[str, Any]:
        self._turns += 1
        return {"turn": self._turns}

    def _phase(self, record: GroupRecord, phase: int) -> dict[str, Any]:
        """The fields of a group that begins this phase now."""
        return {"phase": phase, "begun": record.begun + 1, **groups.phase_begins(self._head, self._now)}

    def _failed_above(self, record: GroupRecord) -> str | None:
        return next((each for each in record.group.depends_on if groups.failed(self._groups[each])), None)

    def _wait(self, name: str, record: GroupRecord) -> bool:
        above = self._failed_above(record)
        if above is not None:
            return self._fail(name, record, DEPENDENCY, f"it depends on group {above}, which failed")
        if self._head.state is RS.STOPPING:
            return self._fail(name, record, STOPPED, f"the rollout was stopped before its turn: {self._head.reason}")
        if self._head.state is RS.CANCELLING:
            return self._fail(
                name, record, CANCELLED, f"the rollout was cancelled before its turn: {self._head.reason}"
            )
        return False

    def _begin(self, name: str) -> bool:
        record = self._groups[name]
        if record.state is not GS.NOT_STARTED or self._head.aside is not None:
            return False
        if groups.awaited(record.group, self._groups) or self._busy >= self._head.strategy.parallel_groups:
            return False
        begun = self._after(
            record, GroupEvent.START, batch=0, attempt=record.attempt + 1, **self._phase(record, 0), **self._next_turn()
        )  # fmt: skip
        members = len(self._rollout.members[name])
        return self._put(name, begun, f"begins {self._phases[0].name}: {_many(members)}")

    def _reopen(self, name: str, record: GroupRecord) -> bool:
        """A group that failed only because of others waits again, once these do not prevent it any more."""
        freed = {
            DEPENDENCY: self._failed_above(record) is None,
            STOPPED: self._head.state is RS.RUNNING,
            CANCELLED: self._head.state is RS.RUNNING,
        }
        if record.accepted is not None or not freed.get(record.reason or "", False):
            return False
        after = groups.waiting_again(record, GroupEvent.REOPEN, self._now)
        return self._put(name, after, f"waits again: {record.reason} does not hold any more")

    def _pause(self, name: str, record: GroupRecord) -> bool:
        if self._head.state is RS.STOPPING:
            return self._fail(name, record, STOPPED, f"the rollout was stopped while it paused: {self._head.reason}")
        if self._head.state is RS.CANCELLING:
            return self._fail(
                name, record, CANCELLED, f"the rollout was cancelled while it paused: {self._head.reason}"
            )
        if record.promoted <= record.batch:
            return False
        return self._next_batch(name, record)

    def _work(self, name: str, record: GroupRecord) -> bool:
        if ahead(record.phase_since, self._now):
            message = f"{self._phases[record.phase].name} began under a clock that was ahead: its time counts from now"
            return self._put(name, replace(record, **groups.phase_begins(self._head, self._now)), message)
        at = groups.standing(self._rollout, record)
        if at.own:
            self._at_rest[name] = (record, self._head.state)
            return False
        late = groups.clock(self._head, self._now) >= groups.deadline(self._phases, record)
        unmet, count = groups.judged(self._rollout, record)
        phase = self._phases[record.phase].name
        left = at.unsent + at.others
        if late and self._head.strategy.on_timeout is OnTimeout.FAIL and left + at.unknown:
            seconds = groups.allowed_seconds(self._phases, record)
            message = f"{phase} ran out of time after {seconds:g} s: {at.unknown} unknown, {left} not sent; {count}"
            return self._fail(name, record, phase, message, unmet)
        if left and not late and not groups.hopeless(self._rollout, record):
            if self._head.state is not RS.CANCELLING:
                self._at_rest[name] = (record, self._head.state)
                return False
            return self._fail(name, record, CANCELLED, f"cancelled in {phase}: {self._head.reason}; {count}")
        if unmet:
            return self._fail(name, record, phase, f"{phase} failed: {count}; {'; '.join(unmet)}", unmet)
        return self._next_phase(name, record, count)

    def _next_phase(self, name: str, record: GroupRecord, count: Count) -> bool:
        phase = self._phases[record.phase].name
        if record.phase + 1 < len(self._phases):
            after = replace(record, **self._phase(record, record.phase + 1))
            return self._put(name, after, f"{phase} succeeded: {count}; begins {self._phases[after.phase].name}")
        if groups.in_last_batch(self._rollout, record):
            done = self._after(record, GroupEvent.SUCCEED, reason=None, detail=f"{phase} succeeded: {count}", unmet=())
            return self._put(name, done, f"succeeded: {count}")
        batch = record.group.batches[record.batch]
        if batch.pause and record.promoted <= record.batch:
            message = f"pauses after batch {record.batch + 1}: {count}; it waits for a promotion"
            return self._put(name, self._after(record, GroupEvent.PAUSE, detail=message), message)
        return self._next_batch(name, record)

    def _next_batch(self, name: str, record: GroupRecord) -> bool:
        """The next batch that is larger than this one; a percentage of few nodes may be the same number again."""
        members = len(self._rollout.members[name])
        reached, batch = groups.reach(record, members), record.batch + 1
        after = self._after(record, GroupEvent.NEXT, batch=batch, detail=None, **self._phase(record, 0))
        while groups.reach(after, members) <= reached:
            after = replace(after, batch=after.batch + 1)
        more = groups.reach(after, members) - reached
        return self._put(name, after, f"begins batch {after.batch + 1}: {_many(more)} more")


def _when(record: GroupRecord) -> tuple[bool, float, int]:
    """Sorts groups that failed: by themselves before those that others took along, then by time, then by turn."""
    return record.reason in REASONS, record.since, record.turn


def _many(members: int) -> str:
    return f"{members} member" + ("s" if members != 1 else "")
