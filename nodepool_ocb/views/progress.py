"""The progress of a wait, and whether its end is known.

The end is known for noderoles if all are ACTIVE, if one is gone, or if one cannot become ACTIVE before a person acts.
Then it, or an ancestor, is in ERROR, PROPOSED, in a deployment that is PROPOSED, or of a role that refuses its
deployment. A machine that is not alive may come back: the wait continues.

The end of a rollout is known if it is over or gone. It is also known if a group pauses and waits for a person to
promote it. A missing annealer decides nothing: one may start.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from nodepool_ocb.engine import readiness
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.noderole import renewing, satisfied
from nodepool_ocb.engine.readiness import Code, why_not
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.records import DeploymentState, State
from nodepool_ocb.rollout import blockers
from nodepool_ocb.rollout.groups import failed
from nodepool_ocb.rollout.records import GroupState, Rollout
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.pictures.tally import Tally
from nodepool_ocb.views.rollouts.rows import in_turn
from nodepool_ocb.views.view import View

#: The reasons that end only when a person acts or a machine returns.
LASTING: Final = frozenset(
    {
        Code.NODE_HELD,
        Code.PAUSED,
        Code.NODE_NOT_ALIVE,
        Code.NODE_NOT_AVAILABLE,
        Code.NODE_DECOMMISSIONED,
        Code.INSTALL_NOT_ALLOWED,
        Code.JIG_INACTIVE,
        Code.NO_ANNEALER,
        Code.UNREADABLE,
    }
)
NOT_BEGUN: Final = frozenset({State.PROPOSED, State.BLOCKED, State.TODO})
MOST_SENTENCES: Final = 10
MOST_CAUSES: Final = 10
NAMED: Final = 3  # nodes of a group
_NUMBERED: Final = re.compile(r"\w*\d\w*")


# -- of noderoles --


class WaitProgress(msgspec.Struct, frozen=True):
    """How far the awaited noderoles are."""

    ready: tuple[str, ...]
    waiting: tuple[str, ...]
    gone: tuple[str, ...]
    stuck: tuple[str, ...]  # sentences: the obstacles that stay until a person acts
    causes: tuple[str, ...] = ()  # the same, grouped by role and reason
    failed: tuple[str, ...] = ()  # those in ERROR, awaited or above an awaited one
    moving: tuple[str, ...] = ()  # awaited ones with nothing stuck above them

    @property
    def settled(self) -> str | None:
        """The outcome, once nothing moves any more; None before that."""
        return None if self.moving else self.outcome

    @property
    def outcome(self) -> str | None:
        """active, deleted or error; None while it is open."""
        if self.gone:
            return "deleted"
        return "error" if self.stuck else None if self.waiting else "active"


#: The word for a state in the text of a wait.
CALLED: Final = {State.ACTIVE: "ACTIVE", State.TRANSITION: "running", State.ERROR: "ERROR"}


class AwaitedRow(View, frozen=True, kw_only=True):
    """A noderole that a wait is for; the other fields are None if it is gone."""

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
    """The progress of the noderoles of these names. The cost depends on them and their ancestors."""
    ready, waiting, gone = [], [], []
    for name in names:
        vertex = world.vertex(name)
        if world.hides(name):
            waiting.append(name)
        elif vertex is None:
            gone.append(name)
        elif satisfied(vertex.record) and not renewing(vertex.record):
            ready.append(name)
        else:
            waiting.append(name)
    above = list(_unsatisfied(vertex for name in waiting if (vertex := world.vertex(name))))
    stuck = {vertex: sentence for vertex in above if (sentence := _stuck(world, vertex))}
    held = _below(stuck, above)
    return WaitProgress(
        ready=tuple(ready),
        waiting=tuple(waiting),
        gone=tuple(gone),
        stuck=tuple(sorted(f"{vertex.name} {sentence}" for vertex, sentence in stuck.items())),
        causes=tuple(grouped(stuck)),
        failed=tuple(sorted(vertex.name for vertex in stuck if vertex.record.state is State.ERROR)),
        moving=tuple(name for name in waiting if world.vertex(name) not in held),
    )


def _below(stuck: Iterable[Vertex], among: Iterable[Vertex]) -> set[Vertex]:
    """Those that are stuck, and all below them that wait."""
    wanted, queue = set(among), list(stuck)
    held = set(queue)
    for vertex in queue:  # grows while it is walked
        fresh = [child for child in vertex.children if child in wanted and child not in held]
        held.update(fresh)
        queue += fresh
    return held


def grouped(stuck: Mapping[Vertex, str]) -> Iterator[str]:
    """One sentence for each role and cause. Causes that differ only in numbers, and in words with digits, are one."""
    groups: dict[tuple[str, str], list[Vertex]] = {}
    for vertex in sorted(stuck, key=lambda each: each.name):
        fqdn = vertex.node.name
        said = re.sub(
            rf"(?<![\w.-])({re.escape(fqdn)}|{re.escape(fqdn.partition('.')[0])})(?![\w-])", "", stuck[vertex]
        )
        groups.setdefault((vertex.role, _NUMBERED.sub("#", said)), []).append(vertex)
    largest = sorted(groups.items(), key=lambda each: -len(each[1]))
    for (role, _), (first, *others) in largest[:MOST_CAUSES]:
        names = [vertex.node.name for vertex in (first, *others[: NAMED - 1])]
        more = f" and {len(others) - len(names) + 1:,} more" if len(others) >= NAMED else ""
        on = f"{role} on {len(others) + 1:,} nodes ({', '.join(names)}{more})" if others else first.name
        yield f"{on} {stuck[first]}"
    if len(largest) > MOST_CAUSES:
        yield f"... and {len(largest) - MOST_CAUSES:,} more causes; -o json has all"


def _unsatisfied(vertices: Iterable[Vertex]) -> Iterator[Vertex]:
    queue = list(dict.fromkeys(vertices))
    seen = set(queue)
    for vertex in queue:  # grows while it is walked
        yield vertex
        fresh = [parent for parent in vertex.parents if parent not in seen and not satisfied(parent.record)]
        seen.update(fresh)
        queue += fresh


def _stuck(world: World, vertex: Vertex) -> str | None:
    """The obstacle, as the end of a sentence about the noderole; None if there is no obstacle."""
    record = vertex.record
    if record.state is State.ERROR:
        return f"is in ERROR: {record.reason or 'no reason was recorded'}"
    refusing = deploymentroles.refusing(world, record.deployment, vertex.role)
    if refusing is not None and (renewing(record) or record.state in NOT_BEGUN):
        return f"does not start: {'; '.join(refusing)}"
    if record.state is State.PROPOSED:
        return f"is PROPOSED; first: nodepool-ocb noderole commit {vertex.name}"
    deployment = world.deployments.get(record.deployment)
    if deployment is None or deployment.record.state is DeploymentState.PROPOSED:
        first = f"first: nodepool-ocb deployment commit {record.deployment}"
        return f"is in deployment {record.deployment}, which is not COMMITTED; {first}"
    return None


def held_up(world: World, names: Iterable[str], now: float) -> list[str]:
    """Waits that end only when a person acts or a machine returns. One sentence for each node, jig or missing annealer,
    at most ten.
    """
    found: dict[tuple[Code, str], str] = {}
    for vertex in _unsatisfied(vertex for name in names if (vertex := world.vertex(name))):
        for reason in why_not(world, vertex, now):
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
            reason=readiness.standing(vertex) if vertex else None,
        )


def tally(world: World, names: Iterable[str]) -> Tally:
    """The number of noderoles in each state. A noderole that will run again does not count as ACTIVE."""
    counts = Counter(_called(world.vertex(name)) for name in names)
    order = ("ACTIVE", "running", "ERROR", "TODO", "BLOCKED", "PROPOSED", "to run again", "not there")
    return Tally("ACTIVE", {word: counts[word] for word in order})


def _called(vertex: Vertex | None) -> str:
    if vertex is None:
        return "not there"
    state = vertex.record.state
    return "to run again" if state is State.ACTIVE and vertex.record.refresh else CALLED.get(state, str(state))


# -- of a rollout --


class RolloutProgress(msgspec.Struct, frozen=True):
    """The end of a rollout, as far as it is known."""

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
    """The state of each group that has begun, in a sentence."""
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
