"""Events of noderoles that commands request: commit, propose, retry, refresh, redeploy, cancel; for any number of noderoles.

Each function gives transactions in order, cut by limits; the world stays as it is. Each transaction is whole by itself: a stop
between two of them leaves some noderoles moved and the others unchanged. Each carries the versions that those before it leave.
If one is refused, the caller starts again with a fresh world. The transactions are decided while they are taken, so that a plan
of thousands of noderoles is never held whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nodepool_ocb.engine.claim import Records, settling
from nodepool_ocb.engine.noderole import Event, Forecast, apply, refreshable, withdrawable
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits
from nodepool_ocb.model.records import Change, NodeRole, State

#: From which states each of these makes sense; in a scope of many, the others are left alone.
MEANT_FOR: Final = {
    Event.COMMIT: frozenset({State.PROPOSED}),
    Event.PROPOSE: frozenset({State.BLOCKED, State.TODO, State.ACTIVE, State.ERROR}),
    Event.RETRY: frozenset({State.ERROR}),
    Event.REFRESH: frozenset({State.ACTIVE}),
    Event.CHECK: frozenset({State.ACTIVE}),
    Event.REDEPLOY: frozenset({State.ACTIVE}),
    Event.CANCEL: frozenset({State.TRANSITION}),
    Event.ALLOW: frozenset({State.ERROR}),
}


def meant_for(record: NodeRole, event: Event) -> bool:
    """Whether the event applies to a noderole in its state; a noderole under check may be refreshed: the refresh follows."""
    if event is Event.WITHDRAW:
        return withdrawable(record)
    return refreshable(record) if event is Event.REFRESH else record.state in MEANT_FOR[event]


def apply_to(
    world: World,
    vertices: Iterable[Vertex],
    event: Event,
    now: float,
    by: str | None = None,
    reason: str | None = None,
    together: Sequence[Change] = (),
) -> Iterator[list[Change]]:
    """``apply_all`` with one event."""
    return apply_all(world, {event: vertices}, now, by, reason, together)


def apply_all(
    world: World,
    events: Mapping[Event, Iterable[Vertex]],
    now: float,
    by: str | None = None,
    reason: str | None = None,
    together: Sequence[Change] = (),
) -> Iterator[list[Change]]:
    """Transactions that apply each event to its noderoles that are in a state for it, parents before children.

    Each event is decided from the noderoles as the events before it leave them. Noderoles with unreadable records are left
    alone. ``together`` is part of the first transaction, which has less room for noderoles. If no noderole is in a state for
    its event, nothing is yielded.
    """
    forecast: Forecast[Vertex] = Forecast()
    for event, vertices in events.items():
        meant = [v for v in vertices if meant_for(forecast.record(v), event) and not v.unreadable]
        meant.sort(key=lambda vertex: (world.depth(vertex), vertex.name))
        while meant:
            part = [v for v in meant[: limits.MOST_CHANGES] if meant_for(forecast.record(v), event)]
            moved = apply(dict.fromkeys(part, event), now, by=by, reason=reason, forecast=forecast)
            records = Records(together, forecast=forecast)
            records.take_all({v: moved[v] for v in part if v in moved} | moved)
            if records.changes:
                yield records.changes
            forecast.add(records.written)
            left = [v for v in part if v in moved and v not in records.written]
            meant = (left if records.written or together else []) + meant[limits.MOST_CHANGES :]
            together = ()


def refuse_tasks(vertices: Iterable[Vertex]) -> None:
    """Raises Conflict for a noderole of a task: only a run of tasks moves those."""
    for vertex in vertices:
        if vertex.record.task_run is not None:
            deployment = vertex.record.deployment
            raise Conflict(
                f"{vertex.name} belongs to tasks run {deployment}/{vertex.record.task_run};"
                f" to run its unsuccessful tasks again: nodepool-ocb tasks run --deployment {deployment} --retry"
            )


def redeploy(vertex: Vertex, now: float, by: str | None = None) -> list[Change]:
    """Run a noderole again from the start, a destructive one too; raises Conflict while it runs or is PROPOSED."""
    refuse_tasks([vertex])
    state = vertex.record.state
    if state in (State.TRANSITION, State.PROPOSED):
        raise Conflict(
            f"{vertex.name} is {state}; it can be redeployed when it is neither running nor proposed;"
            f" see: nodepool-ocb noderole explain {vertex.name}"
        )
    return settling(apply({vertex: Event.REDEPLOY}, now, by=by), (vertex,))
