"""Rollouts, as they are driven.

The driver writes the rounds of ``rollout.step`` as one transaction, with the noderoles that they commit.

Rounds are decided one upon the other until nothing is left to decide, and written together as far as they fit a
transaction; the rest is decided again. Noderoles are moved only by decisions in the same transaction or before it. A
transaction holds the rollout to the version that was read (store.rollouts). Reads the world and changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from nodepool_ocb.engine import maintenance
from nodepool_ocb.engine.commands import apply_to
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.executions import ROLLOUT
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.paths import noderole_name
from nodepool_ocb.model.records import Change, NodeRole, RolloutPointer
from nodepool_ocb.rollout import report
from nodepool_ocb.rollout.observer import Observer
from nodepool_ocb.rollout.records import (
    OVER,
    Decision,
    GroupRecord,
    NodeState,
    Progress,
    Rollout,
    RolloutRecord,
    apply,
)
from nodepool_ocb.rollout.step import Action, Directive, Step, step, watched
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.rollouts import Versions
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb.store.world.paths import parse
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.driving.work import DrivingStep
from nodepool_ocb_annealer.timer_kinds import TimerKind


class DrivenRollout(msgspec.Struct, frozen=True):
    """A rollout as its driver knows it."""

    deployment: str
    id: str
    rollout: Rollout
    versions: Versions

    @property
    def name(self) -> str:
        return f"rollout {self.deployment}/{self.id}"

    @property
    def over(self) -> bool:
        return self.rollout.over

    @property
    def pointer(self) -> RolloutPointer:
        return self.versions.pointer

    @property
    def version(self) -> int:
        return self.versions.version


class Rolling:
    """Rollouts, for their drivers."""

    what = "rollout"
    timer_kind = TimerKind.ROLLOUT
    root = paths.ROLLOUTS

    def __init__(self, session: Session) -> None:
        self._session = session

    def pointers(self, world: World) -> Mapping[str, Stored[RolloutPointer]]:
        return world.rollouts

    def concerns(self, touched: ChangeSet) -> bool:
        return touched.has(RolloutPointer)

    def lock(self, deployment: str, identity: str) -> str:
        return paths.rollout_lock(deployment, identity)

    def read(self, deployment: str, identity: str) -> DrivenRollout | None:
        found = rollouts.read(self._session, deployment, identity)
        return DrivenRollout(deployment, identity, *found) if found is not None else None

    def move(
        self, world: World, driven: DrivenRollout, now: float, quarantined: Iterable[str]
    ) -> DrivingStep[DrivenRollout]:
        return move(world, driven, now, quarantined)

    def nodes(self, driven: DrivenRollout) -> frozenset[str]:
        return concerned(driven)

    def count(self, driven: int) -> None:
        metrics.ROLLOUTS_DRIVEN.set(driven)

    def took(self, seconds: float) -> None:
        metrics.ROLLOUT_STEP_SECONDS.observe(seconds)

    def wrote(self) -> None:
        metrics.ROLLOUT_WRITES.inc()


def move(
    world: World, driven: DrivenRollout, now: float, quarantined: Iterable[str] = ()
) -> DrivingStep[DrivenRollout]:
    """The next transaction; ``quarantined`` are the paths that the world lacks because they cannot be decoded."""
    unreadable = _noderoles(quarantined)
    pauses = list(maintenance.pauses(world, driven.deployment, now).values())
    after, decisions, last = _decided(world, driven, now, unreadable, pauses[0] if pauses else None)
    actions = last.actions if last is not None else ()
    ends = [pause.until for pause in pauses if pause.until is not None]
    due = min([*ends, *([last.due] if last.due is not None else [])], default=None) if last is not None else now
    record = rollouts.changes(driven.deployment, driven.id, driven.rollout, after, driven.versions, now)
    changes = next(
        _moved(world, driven, after, actions, now, record), record
    )  # a change without room begins in the next one
    if not decisions and changes == record:
        return DrivingStep((), driven, due, quiet=True)
    versions = ROLLOUT.written(driven.deployment, driven.id, driven.versions, changes)
    known = DrivenRollout(driven.deployment, driven.id, after, versions)
    quiet = last is not None and not actions and all(map(_came_back, decisions))
    return DrivingStep(changes, known, due, quiet, list(_lines(known, decisions)))


def _lines(driven: DrivenRollout, decisions: Iterable[Decision]) -> Iterator[tuple[int, str]]:
    """The log lines of decisions: groups, the rollout, and lost nodes."""
    for decision in decisions:
        match decision.record:
            case RolloutRecord():
                yield logging.INFO, decision.reason
                if decision.record.state in OVER:
                    yield from ((logging.INFO, line) for line in report.logged(driven.rollout))
            case GroupRecord():
                yield logging.INFO, f"group {decision.name} {decision.reason}"
            case Progress(state=NodeState.FAILURE | NodeState.UNKNOWN):
                yield logging.WARNING, f"node {decision.name}: {decision.reason}"


def _noderoles(paths: Iterable[str]) -> list[str]:
    """Those of the paths that are noderoles', as these are named."""
    places = (parse(path) for path in paths)
    return [noderole_name(at.below, at.name) for at in places if at is not None and at.kind is NodeRole]


def _came_back(decision: Decision) -> bool:
    return isinstance(decision.record, Progress) and decision.record.state is not NodeState.SENDING


def concerned(driven: DrivenRollout) -> frozenset[str]:
    """The nodes with noderoles that it waits for."""
    return frozenset(watched(driven.rollout))


def _decided(
    world: World, driven: DrivenRollout, now: float, unreadable: Sequence[str], pause: Maintenance | None
) -> tuple[Rollout, list[Decision], Step | None]:
    """As many rounds as one transaction bears; and the step that has nothing more to decide, None where more is left."""
    after, made = driven.rollout, list[Decision]()
    while True:
        seen = Observer(world, driven.deployment, after, unreadable=unreadable).seen()
        decided = step(after, seen, now, pause)
        if not decided.decisions:
            return after, made, decided
        taken = _bearable(driven, after, decided.decisions, now)
        after = apply(after, taken)
        made += taken
        if len(taken) < len(decided.decisions):
            return after, made, None


def _bearable(driven: DrivenRollout, after: Rollout, decisions: Sequence[Decision], now: float) -> Sequence[Decision]:
    """The first of these decisions, as many as fit into the transaction with those before; none where that is full."""
    count = len(decisions)
    while count:
        wanted = apply(after, decisions[:count])
        if limits.fits(rollouts.changes(driven.deployment, driven.id, driven.rollout, wanted, driven.versions, now)):
            break
        count //= 2
    if not count and after is driven.rollout:
        count = 1  # a single one that is too large is told by the session
    return decisions[:count]


def _moved(
    world: World, driven: DrivenRollout, after: Rollout, actions: Sequence[Action], now: float, record: Sequence[Change]
) -> Iterator[list[Change]]:
    """The record, with as many moves of noderoles as it leaves room for; only the first may be taken: each has the record."""
    look = Observer(world, driven.deployment, after)
    for reason, chosen in _by_reason(after, actions).items():
        for event, vertices in look.moves(chosen).items():
            yield from apply_to(world, _not_yet(vertices, event), event, now, driven.name, reason, record)


def _by_reason(after: Rollout, actions: Sequence[Action]) -> dict[str | None, list[Action]]:
    """The actions by the reason that they write to noderoles."""
    found: dict[str | None, list[Action]] = {}
    for action in actions:
        reason = None
        if action.directive is Directive.CANCEL:
            progress = after.nodes[action.node]
            reason = (progress.reason if progress.state is NodeState.UNKNOWN else None) or after.head.reason
        found.setdefault(reason, []).append(action)
    return found


def _not_yet(vertices: Sequence[Vertex], event: Event) -> list[Vertex]:
    """Without those with runs that are being ended already."""
    return [vertex for vertex in vertices if event is not Event.CANCEL or vertex.record.cancel_reason is None]
