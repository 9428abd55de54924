"""The state machine of a noderole: one table, and one rule for the changes that neighbours force (docs/states.md).

The rules, in prose:

- The effect of an *event* on the noderole that it names is ``AFTER``. A pair that is not there is refused.
- The effect of a change on others is ``settle``. A committed noderole that is not in TRANSITION is BLOCKED while any parent is
  not satisfied. A BLOCKED one with only satisfied parents becomes TODO. A parent is satisfied when it is ACTIVE, or in
  TRANSITION by a refresh.
- A destructive role runs once. In TODO with its work done, it becomes ACTIVE without a run. In TODO after a start with an
  unknown outcome, it becomes ERROR. Only a REDEPLOY or RETRY ends that; REFRESH is refused.
- A REDEPLOY of a destructive role that was done may be taken back until it is claimed (WITHDRAW, PROPOSE). It then counts as
  done.
- A check (CHECK) is a refresh that changes nothing: it is claimed and run as one. Each of its results (CHECKED) leaves the
  noderole in its state, and records the finding. A refresh replaces a check that has not begun, and follows one that has.
- A refresh by the schedule after drift marks the noderole (``mended``). The mark stays until a check has looked at the effect,
  or until any event other than that run and that check.
- A run that must be cancelled (CANCEL) stays in TRANSITION until nothing of it is left on its machine. Then it is in ERROR;
  any other outcome meanwhile is ignored.
- A record that cannot be read moves no noderole, and nothing moves it. While a parent is unknown, the parents that are known
  to be unsatisfied block a noderole. Without these, it keeps its state.
- A noderole begins PROPOSED (``bound``). A new parent counts as not satisfied.
- Every entry into TODO raises ``generation``, and so does REFRESH; a take-over does not.
- A noderole that enters a state gets the hook of that state, if its role has it. SKIP and CHECKED add no hook: nothing was
  done.

``apply`` does both at once and returns the new records; no other function assigns a state. Pure: ``now`` is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from msgspec.structs import replace

from nodepool_ocb.engine.entering import with_hook
from nodepool_ocb.engine.placed import Placed
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.drift import PendingCheck
from nodepool_ocb.model.records import NodeRole, State, altered


class Event(StrEnum):
    """The events of a noderole."""

    __hash__ = str.__hash__  # as State

    COMMIT = "COMMIT"  # a person lets the annealers have it
    PROPOSE = "PROPOSE"  # a person takes it back to change it
    CLAIM = "CLAIM"  # an annealer takes it, or takes it over from one that died
    SUCCEED = "SUCCEED"  # its jig succeeded
    FAIL = "FAIL"  # its jig failed, and no retry is left
    DEFER = "DEFER"  # its jig failed, and runs again after a back-off
    LOSE = "LOSE"  # its jig was started, and how it ended cannot be known any more
    CANCEL = "CANCEL"  # a person, or a rollout that is out of time, ends its run
    RETRY = "RETRY"  # a person wants a failed one to run again
    REDEPLOY = "REDEPLOY"  # a person or a rollout wants it to run again from the start, a destructive one too
    REFRESH = "REFRESH"  # a person or a hook wants it to run again in place, its children undisturbed
    WITHDRAW = "WITHDRAW"  # a rollout takes a refresh or a redeployment back that has not begun
    CHECK = "CHECK"  # a person or a schedule wants to know whether its machine is still as it left it
    CHECKED = "CHECKED"  # its check has ended, with any result
    NODE_DIED = "NODE_DIED"  # the machine does not answer: all that was done on it must be looked at again
    SKIP = "SKIP"  # a destructive role that was done already
    ALLOW = "ALLOW"  # a task failed, and may: the noderoles below it go on


#: The effect of an event on the noderole that it names. A pair without an entry is refused.
AFTER: Final[Mapping[tuple[State, Event], State]] = {
    (State.PROPOSED, Event.COMMIT): State.TODO,  # settle() blocks it if it must wait
    (State.BLOCKED, Event.PROPOSE): State.PROPOSED,
    (State.TODO, Event.PROPOSE): State.PROPOSED,
    (State.ACTIVE, Event.PROPOSE): State.PROPOSED,
    (State.ERROR, Event.PROPOSE): State.PROPOSED,
    (State.TODO, Event.CLAIM): State.TRANSITION,
    (State.ACTIVE, Event.CLAIM): State.TRANSITION,  # only with a refresh pending
    (State.TRANSITION, Event.CLAIM): State.TRANSITION,  # take-over
    (State.TRANSITION, Event.SUCCEED): State.ACTIVE,
    (State.TRANSITION, Event.FAIL): State.ERROR,
    (State.TRANSITION, Event.DEFER): State.TODO,
    (State.TRANSITION, Event.LOSE): State.TODO,  # again; settle() makes a destructive one ERROR
    (State.TRANSITION, Event.CANCEL): State.TRANSITION,  # the annealer that holds or takes over the node ends the run
    (State.TODO, Event.FAIL): State.ERROR,  # a hook raised, or a destructive start of unknown outcome
    (State.BLOCKED, Event.FAIL): State.ERROR,  # a hook raised; settle() blocks it again until its parents are well
    (State.ACTIVE, Event.FAIL): State.ERROR,  # on_active raised
    (State.PROPOSED, Event.FAIL): State.ERROR,  # on_proposed raised
    (State.ERROR, Event.FAIL): State.ERROR,  # on_error raised
    (State.ERROR, Event.RETRY): State.TODO,
    (State.BLOCKED, Event.REDEPLOY): State.TODO,
    (State.TODO, Event.REDEPLOY): State.TODO,
    (State.ACTIVE, Event.REDEPLOY): State.TODO,
    (State.ERROR, Event.REDEPLOY): State.TODO,
    (State.ACTIVE, Event.REFRESH): State.ACTIVE,
    (State.TRANSITION, Event.REFRESH): State.TRANSITION,  # only during a check: the refresh follows it
    (State.ACTIVE, Event.WITHDRAW): State.ACTIVE,  # only with a refresh pending
    (State.TODO, Event.WITHDRAW): State.TODO,  # only of a redeployment; settle() makes it ACTIVE, for it was done
    (State.BLOCKED, Event.WITHDRAW): State.TODO,  # the same
    (State.ACTIVE, Event.CHECK): State.ACTIVE,  # only with no refresh pending
    (State.TRANSITION, Event.CHECKED): State.ACTIVE,  # only of a check
    (State.TODO, Event.SKIP): State.ACTIVE,
    (State.ERROR, Event.ALLOW): State.ACTIVE,
    (State.BLOCKED, Event.NODE_DIED): State.TODO,
    (State.TODO, Event.NODE_DIED): State.TODO,
    (State.TRANSITION, Event.NODE_DIED): State.TODO,
    (State.ACTIVE, Event.NODE_DIED): State.TODO,
    (State.ERROR, Event.NODE_DIED): State.TODO,
}

#: The states that neighbours may change.
SETTLING: Final = frozenset({State.BLOCKED, State.TODO, State.ACTIVE, State.ERROR})


P = TypeVar("P", bound=Placed)


def satisfied(record: NodeRole) -> bool:
    """Whether children need not wait for it."""
    return record.state is State.ACTIVE or (record.state is State.TRANSITION and record.rare.refresh)


def claimable(record: NodeRole) -> bool:
    """Whether its own state allows CLAIM."""
    return record.state in (State.TODO, State.TRANSITION) or (record.state is State.ACTIVE and record.rare.refresh)


def renewing(record: NodeRole) -> bool:
    """Whether it runs, or is to run, again in place; a check does not count."""
    rare = record.rare
    return rare.refresh and (rare.check is None or rare.check.refresh)


def withdrawable(record: NodeRole) -> bool:
    """Whether a refresh or a redeployment is pending, so that it can be taken back."""
    if record.state is State.ACTIVE:
        return record.refresh
    return record.redeploy and record.state in (State.TODO, State.BLOCKED)


def refreshable(record: NodeRole) -> bool:
    """Whether its own state allows REFRESH."""
    return record.state is State.ACTIVE or (record.state is State.TRANSITION and record.check is not None)


def failed(record: NodeRole) -> bool:
    """Whether it keeps the other tasks of its run from its node.

    >>> [failed(NodeRole.of(state=state, since=0.0, task_run="0000000003")) for state in (State.ERROR, State.TODO)]
    [True, False]
    """
    return record.state is State.ERROR and record.rare.task_run is not None


def bound(now: float, by: str | None, **fields: Any) -> NodeRole:
    """The record of a noderole that is made; ``fields`` are its other keys."""
    return NodeRole.of(state=State.PROPOSED, since=now, by=by, **fields)


def after(record: NodeRole, event: Event, now: float, by: str | None = None, reason: str | None = None) -> NodeRole:
    """The record after an event, before its neighbours settle.

    Raises Conflict if the table has no such pair.
    """
    state = AFTER.get((record.state, event))
    if state is None or not _possible(record, event):
        raise Conflict(f"a noderole in {record.state} cannot {event}")
    if event is Event.CANCEL:  # the worker, the time and the reason stay as they are
        return record.amended(cancel_reason=record.cancel_reason or reason or "asked for")
    if event is Event.REFRESH and state is State.TRANSITION:
        return record.amended(check=replace(record.check or PendingCheck(), refresh=True))
    rare = record.rare
    if rare.cancel_reason and event in (Event.SUCCEED, Event.DEFER, Event.LOSE):
        raise Conflict(f"its run is being cancelled ({rare.cancel_reason}), so it cannot {event}")
    own: dict[str, Any] = {"state": state, "since": now, "by": by}
    seldom: dict[str, Any] = {"reason": reason, "mended": rare.mended and event in _STILL_MENDED}
    if event in _COUNTED:
        own |= _COUNTED[event](record)
    if event in _AT_EVENT:
        seldom |= _AT_EVENT[event](record)
    if rare.check is not None and event not in (Event.CLAIM, Event.CANCEL):
        own |= _run_before(record)
        seldom.setdefault("check", None)
    if state is State.TODO:
        own["generation"] = record.generation + 1
        seldom |= _ENTERED_TODO
    return replace(record, rare=altered(rare, **seldom), **own)


def _possible(record: NodeRole, event: Event) -> bool:
    """The conditions of an event on a noderole beside its state."""
    if event is Event.CLAIM:
        return claimable(record)
    if event in (Event.SUCCEED, Event.DEFER):
        return record.rare.check is None
    if event is Event.WITHDRAW:
        return withdrawable(record)
    if event is Event.CHECK:
        return not record.refresh
    if event is Event.REFRESH:
        return refreshable(record)
    return event is not Event.CHECKED or record.check is not None


def _run_before(record: NodeRole) -> dict[str, Any]:
    """Of a check that ends: the newest run is the one before it again. A check that has not begun changed no run."""
    if record.check is None or record.state is not State.TRANSITION:
        return {}
    return {"run": record.check.run, "epoch": record.check.epoch}


def _as_claimed(record: NodeRole) -> PendingCheck | None:
    taken_over = record.state is State.TRANSITION
    return record.check if taken_over else PendingCheck(since=record.since, run=record.run, epoch=record.epoch)


def _not_again(record: NodeRole) -> dict[str, Any]:
    """Of a destructive role with a redeployment that has not begun: it was done, as before."""
    return {"once": "done", "redeploy": False} if record.redeploy else {}


#: The events on the way from a run that is to mend drift to the check of its effect.
_STILL_MENDED: Final = frozenset({Event.CLAIM, Event.SUCCEED, Event.DEFER, Event.LOSE, Event.CHECK})

#: The rare fields of a noderole that enters TODO, with its next generation.
_ENTERED_TODO: Final[Mapping[str, Any]] = {"refresh": False, "checked": None}

#: The changes of an event in other fields than the rare ones, beside the state.
_COUNTED: Final[Mapping[Event, Callable[[Any], dict[str, Any]]]] = {
    Event.COMMIT: lambda _: {"attempt": 0},
    Event.CLAIM: lambda record: {"attempt": record.attempt + (record.state is not State.TRANSITION)},
    Event.SUCCEED: lambda _: {"attempt": 0},
    Event.RETRY: lambda _: {"attempt": 0},
    Event.REDEPLOY: lambda _: {"attempt": 0},
    Event.REFRESH: lambda record: {"generation": record.generation + 1},
    Event.CHECK: lambda record: {"generation": record.generation + 1, "since": record.since},
    Event.CHECKED: lambda record: {
        "generation": record.generation + record.check.refresh,
        "attempt": 0,
        "since": record.check.since,
    },
}

#: The changes of an event in the rare fields.
_AT_EVENT: Final[Mapping[Event, Callable[[Any], dict[str, Any]]]] = {
    Event.COMMIT: lambda _: {"not_before": 0.0},
    Event.PROPOSE: lambda record: {"refresh": False, **_not_again(record)},
    Event.CLAIM: lambda record: {"redeploy": False, "check": record.check and _as_claimed(record)},
    Event.SUCCEED: lambda record: {
        "refresh": False,
        "checked": None,
        "not_before": 0.0,
        "once": "done" if record.once else None,
    },
    Event.FAIL: lambda record: {
        "refresh": False,
        "once": None if record.state is State.TRANSITION else record.once,
        "cancel_reason": None,
    },
    Event.DEFER: lambda _: {"once": None},
    Event.RETRY: lambda _: {"not_before": 0.0, "once": None},
    Event.REDEPLOY: lambda record: {
        "not_before": 0.0,
        "once": None,
        "redeploy": record.redeploy or record.once == "done",
    },
    Event.REFRESH: lambda _: {"refresh": True, "not_before": 0.0},
    Event.WITHDRAW: lambda record: {"refresh": False, **_not_again(record)},
    Event.CHECK: lambda _: {"refresh": True, "check": PendingCheck(), "not_before": 0.0},
    Event.CHECKED: lambda record: {"refresh": record.check.refresh, "cancel_reason": None},
    Event.NODE_DIED: lambda _: {"not_before": 0.0, "cancel_reason": None},
}


def settled(record: NodeRole, waiting: int, now: float) -> NodeRole:
    """The record as ``waiting`` unsatisfied parents leave it: the one rule about neighbours.

    >>> settled(NodeRole(state=State.ACTIVE, since=0.0), 1, now=9.0).state
    <State.BLOCKED: 'BLOCKED'>
    """
    if record.state not in SETTLING:
        return record
    if waiting:
        if record.state is State.BLOCKED:
            return record
        rare = altered(record.rare, reason=None, refresh=False, check=None)
        return replace(record, state=State.BLOCKED, since=now, rare=rare)
    if record.state is State.BLOCKED:
        rare = altered(record.rare, reason=None, **_ENTERED_TODO)
        record = replace(record, state=State.TODO, since=now, generation=record.generation + 1, rare=rare)
    if record.state is State.TODO and record.once == "done":
        return after(record, Event.SKIP, now, reason="destructive: it was done once and is not run again")
    if record.state is State.TODO and record.once == "started":
        return after(record, Event.FAIL, now, reason=OUTCOME_UNKNOWN)
    return record


def placed(vertex: Placed, record: NodeRole, fewer: int, now: float) -> NodeRole:
    """``settled`` of a noderole among its parents, of which ``fewer`` are unsatisfied than its counter says."""
    if vertex.certain:
        return settled(record, vertex.waiting - fewer, now)
    if vertex.unreadable:
        return vertex.record
    if not vertex.unknown:
        return settled(record, vertex.waiting - fewer, now)
    lacking = vertex.lacking - fewer
    return settled(record, lacking, now) if lacking else record


DESTRUCTIVE: Final = "its role is destructive, and only a redeployment runs it again"
OUTCOME_UNKNOWN: Final = "destructive: it was started and its outcome is not known; look at the machine, then retry"


class Forecast(Generic[P]):
    """Noderoles as planned transactions leave them; the world stays as it is.

    ``records`` has the newest record of each noderole that a transaction writes.
    """

    def __init__(self) -> None:
        self.records: dict[P, NodeRole] = {}
        self.fewer: dict[Any, int] = {}  # parents, or members, that are satisfied beyond the counter
        self.gates: dict[Any, int] = {}  # cluster → how many transactions raise its gate
        self._again: dict[P, int] = {}  # the writes of a noderole after its first

    def record(self, vertex: P) -> NodeRole:
        return self.records.get(vertex, vertex.record)

    def writes(self, vertex: P) -> int:
        """The number of the transactions that write it."""
        return (vertex in self.records) + self._again.get(vertex, 0)

    def add(self, written: Mapping[P, NodeRole]) -> None:
        """Add the records of the next transaction."""
        raised: set[Any] = set()
        for vertex, record in written.items():
            good = satisfied(record)
            if good is not satisfied(self.record(vertex)):
                for child in _turned(vertex, good, self.fewer, {}):
                    self.fewer[child] = self.fewer.get(child, 0) + (1 if good else -1)
                raised.update(() if good else vertex.clusters)
            if vertex in self.records:
                self._again[vertex] = self._again.get(vertex, 0) + 1
            self.records[vertex] = record
        for cluster in raised:
            self.gates[cluster] = self.gates.get(cluster, 0) + 1


class Propagation(Generic[P]):
    """Changes, and the changes of neighbours that follow from them; more changes may be added on top of these.

    ``records`` has each noderole that was looked at, with its record after all changes. They begin from ``forecast``; None:
    from the world. The cost is in proportion to the changes: each noderole keeps a counter of its unsatisfied parents, each
    cluster one of its unsatisfied members. No set is scanned again.
    """

    def __init__(self, now: float, forecast: Forecast[P] | None = None) -> None:
        self.records: dict[P, NodeRole] = {}
        self._now = now
        self._planned = forecast.records if forecast is not None else {}
        self._ahead = forecast.fewer if forecast is not None else {}
        self._fewer: dict[Any, int] = {}  # as ``Forecast.fewer``, of each that a change counts anew
        self._counted: dict[P, bool] = {}  # whether the children of a noderole count it as satisfied

    def move(self, changed: Mapping[P, NodeRole], also: Iterable[P] = ()) -> dict[P, NodeRole]:
        """Add changes, and let them and the neighbours ``also`` settle until nothing moves any more.

        Returns the looked-at records that differ from those before, each with the hook of the state that it enters.
        """
        records, fewer, counted, now = self.records, self._fewer, self._counted, self._now
        planned, ahead = self._planned, self._ahead
        records.update(changed)
        queue = deque([*changed, *also])
        seen: dict[P, NodeRole] = {}  # with their records before
        while queue:
            vertex = queue.popleft()
            before = seen[vertex] = planned.get(vertex, vertex.record)
            record = records.get(vertex, before)
            record = records[vertex] = placed(vertex, record, fewer.get(vertex, ahead.get(vertex, 0)), now)
            good = satisfied(record)
            if good is not counted.get(vertex, satisfied(before)):
                counted[vertex] = good
                for child in _turned(vertex, good, fewer, ahead) if vertex.clusters else vertex.below:
                    fewer[child] = fewer.get(child, ahead.get(child, 0)) + (1 if good else -1)
                    queue.append(child)
        return {
            vertex: with_hook(vertex, records[vertex], before)
            for vertex, before in seen.items()
            if records[vertex] is not before and records[vertex] != before
        }


def settle(changed: Mapping[P, NodeRole], now: float, also: Iterable[P] = ()) -> dict[P, NodeRole]:
    """These changes, with those of the neighbours ``also`` and of all others that follow, until nothing moves any more.

    Returns the records that differ from those of their noderoles, changes included, each with the hook of the state that it
    enters.
    """
    settling: Propagation[P] = Propagation(now)
    return settling.move(changed, also)


def _turned(vertex: Placed, good: bool, fewer: dict[Any, int], ahead: Mapping[Any, int]) -> Iterator[Any]:
    """The children of a noderole that wait for one parent more or less; ``fewer`` counts it for its clusters.

    The children of a cluster of which it is a member are left out while other members keep them waiting.
    """
    yield from vertex.below
    for cluster in vertex.clusters:
        before = fewer.get(cluster, ahead.get(cluster, 0))
        fewer[cluster] = before + (1 if good else -1)
        if cluster.waiting - before == (1 if good else 0):
            yield from cluster.below


def apply(
    events: Mapping[P, Event],
    now: float,
    *,
    by: str | None = None,
    reason: str | None = None,
    also: Iterable[P] = (),
    forecast: Forecast[P] | None = None,
) -> dict[P, NodeRole]:
    """The new records after these events at once: those of the named noderoles, and those of all noderoles that they move.

    Raises Conflict, with the noderole's name, if the table refuses an event or the record cannot be read. Raises Conflict also
    for REFRESH of a destructive role. If a role has a hook for the state that its noderole enters, the hook is added to
    ``hooks`` for an annealer. ``forecast``: the noderoles as the transactions before leave them; None: as they are.
    """
    forecast = Forecast() if forecast is None else forecast
    changed: dict[P, NodeRole] = {}
    for vertex, event in events.items():
        if vertex.unreadable:
            raise Conflict(f"{vertex.name}: its record cannot be read, so it cannot {event}; see: nodepool-ocb status")
        if event is Event.REFRESH and vertex.destructive:
            raise Conflict(
                f"{vertex.name}: {DESTRUCTIVE}; to redeploy it: nodepool-ocb noderole redeploy {vertex.name}"
            )
        try:
            changed[vertex] = after(forecast.record(vertex), event, now, by, reason)
        except Conflict as refused:
            raise Conflict(f"{vertex.name}: {refused}; see: nodepool-ocb noderole explain {vertex.name}") from None
    return Propagation(now, forecast).move(changed, also)
