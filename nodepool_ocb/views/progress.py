"""How far it is what somebody waits for, and whether the end is known.

Of noderoles is known: all are ACTIVE; one is gone; or one cannot become ACTIVE before somebody acts: it, or what it waits
for, is in ERROR, PROPOSED, or in a deployment that is PROPOSED. A machine that is not alive may come back: waiting goes on.

Of a rollout is known: it is over; it is gone; or nothing happens before somebody promotes a group that pauses. That no
annealer runs says nothing: one may start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from nodepool_ocb.engine.noderole import satisfied
from nodepool_ocb.engine.readiness import Code, why_not
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.records import DeploymentState, State
from nodepool_ocb.rollout import blockers
from nodepool_ocb.rollout.groups import failed
from nodepool_ocb.rollout.records import GroupState, Rollout
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.rollouts.rows import in_turn
from nodepool_ocb.views.view import View

#: What only a person or a machine's return can end.
LASTING: Final = frozenset(
    {Code.NODE_NOT_ALIVE, Code.NODE_NOT_AVAILABLE, Code.JIG_INACTIVE, Code.NO_ANNEALER, Code.UNREADABLE}
)
MOST_SENTENCES: Final = 10


# -- of noderoles --


class WaitProgress(msgspec.Struct, frozen=True):
    """How far the awaited noderoles are."""

    ready: tuple[str, ...]
    waiting: tuple[str, ...]
    gone: tuple[str, ...]
    stuck: tuple[str, ...]  # sentences: what is in the way and stays there until somebody acts

    @property
    def outcome(self) -> str | None:
        """active, deleted or error; None while it is open."""
        if self.gone:
            return "deleted"
        return "error" if self.stuck else None if self.waiting else "active"


class AwaitedRow(View, frozen=True, kw_only=True):
    """A noderole that somebody waits for; all None for one that is gone."""

    noderole: str
    state: State | None
    since: float | None
    reason: str | None


class WaitDocument(View, frozen=True, kw_only=True):
    """How a wait ended."""

    outcome: str | None  # active, deleted, error or timeout
    stuck: tuple[str, ...]
    noderoles: tuple[AwaitedRow, ...]
    changes: tuple[ChangeRow, ...] | msgspec.UnsetType = msgspec.UNSET  # where something was changed before


def of_noderoles(world: World, names: Iterable[str]) -> WaitProgress:
    """What it costs depends on the noderoles and what is above them."""
    ready, waiting, gone = [], [], []
    for name in names:
        vertex = world.vertex(name)
        if world.hides(name):
            waiting.append(name)
        elif vertex is None:
            gone.append(name)
        elif vertex.record.state is State.ACTIVE and not vertex.record.refresh:
            ready.append(name)
        else:
            waiting.append(name)
    above = _unsatisfied(vertex for name in waiting if (vertex := world.vertex(name)))
    stuck = [sentence for vertex in above if (sentence := _stuck(world, vertex))]
    return WaitProgress(tuple(ready), tuple(waiting), tuple(gone), tuple(sorted(stuck)))


def _unsatisfied(vertices: Iterable[Vertex]) -> Iterator[Vertex]:
    queue = list(dict.fromkeys(vertices))
    seen = set(queue)
    for vertex in queue:  # grows while it is walked
        yield vertex
        fresh = [parent for parent in vertex.parents if parent not in seen and not satisfied(parent.record)]
        seen.update(fresh)
        queue += fresh


def _stuck(world: World, vertex: Vertex) -> str | None:
    record = vertex.record
    if record.state is State.ERROR:
        return f"{vertex.name} is in ERROR: {record.reason or 'no reason was recorded'}"
    if record.state is State.PROPOSED:
        return f"{vertex.name} is PROPOSED; nodepool-ocb noderole commit {vertex.name}"
    deployment = world.deployments.get(record.deployment)
    if deployment is None or deployment.record.state is DeploymentState.PROPOSED:
        return f"{vertex.name} is in deployment {record.deployment}, which is not COMMITTED"
    return None


def held_up(world: World, names: Iterable[str], now: float) -> list[str]:
    """What only a person or a machine's return can end: one sentence for each node, jig or missing annealer, ten at most."""
    found: dict[tuple[Code, str], str] = {}
    for name in names:
        vertex = world.vertex(name)
        for reason in why_not(world, vertex, now) if vertex else ():
            if reason.code in LASTING and len(found) < MOST_SENTENCES:
                found.setdefault((reason.code, reason.subject), f"waiting: {reason.text}; {reason.advice}")
    return list(found.values())


def awaited(world: World, names: Iterable[str]) -> Iterator[AwaitedRow]:
    """Each noderole with its state."""
    for name in names:
        vertex = world.vertex(name)
        record = vertex.record if vertex else None
        yield AwaitedRow(
            noderole=name,
            state=record.state if record else None,
            since=record.since if record else None,
            reason=record.reason if record else None,
        )


# -- of a rollout --


class RolloutProgress(msgspec.Struct, frozen=True):
    """What is known of the end."""

    outcome: str | None  # success, failed, cancelled, paused or deleted; None while it is open
    sentence: str = ""
    group: str | None = None  # that pauses


def of_rollout(rollout: Rollout | None, fail_fast: bool = False) -> RolloutProgress:
    """None is one that is gone. With ``fail_fast`` it is over as soon as a critical group has failed."""
    if rollout is None:
        return RolloutProgress("deleted", "it was deleted")
    if rollout.over:
        return RolloutProgress(str(rollout.head.state), rollout.head.reason or "")
    ordered = ((name, rollout.groups[name]) for name in in_turn(rollout))
    lost = [name for name, record in ordered if record.group.critical and failed(record)]
    if fail_fast and lost:
        return RolloutProgress("failed", f"critical group {lost[0]} failed: {rollout.groups[lost[0]].detail}")
    paused = blockers.for_somebody(rollout)
    if paused:
        return RolloutProgress("paused", f"group {paused[0]} {rollout.groups[paused[0]].detail}", paused[0])
    return RolloutProgress(None)


def moved(rollout: Rollout) -> list[str]:
    """Where each group stands that has begun, in a sentence."""
    return [_moved(rollout, name) for name in in_turn(rollout) if rollout.groups[name].turn]


def _moved(rollout: Rollout, group: str) -> str:
    record = rollout.groups[group]
    if record.state is GroupState.PAUSED:
        return f"group {group} {record.detail}"
    if record.state is GroupState.RUNNING:
        batch = f" of batch {record.batch + 1}" if record.group.batches else ""
        return f"group {group}: {rollout.head.strategy.phases[record.phase].name}{batch}"
    if record.accepted is not None:
        return f"group {group}: {record.state}, accepted: {record.accepted}"
    return f"group {group}: {record.state}" + (f": {record.detail}" if record.detail else "")
