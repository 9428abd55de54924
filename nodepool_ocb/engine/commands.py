"""Events of noderoles that commands request: commit, propose, retry, refresh, redeploy, cancel; for any number of noderoles.

Each function yields transactions in order, cut by limits. Each transaction is whole by itself: a stop between two of them
leaves some noderoles moved and the others unchanged. After each one, the function applies its changes to the world. So the
caller must write each transaction before it takes the next. If one is refused, the caller starts again with a fresh world.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nodepool_ocb.engine.claim import settling, written
from nodepool_ocb.engine.noderole import Event, apply, refreshable
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
    Event.WITHDRAW: frozenset({State.ACTIVE}),
    Event.CANCEL: frozenset({State.TRANSITION}),
    Event.ALLOW: frozenset({State.ERROR}),
}


def meant_for(vertex: Vertex, event: Event) -> bool:
    """Whether the event applies to the noderole in its state; a noderole under check may be refreshed: the refresh follows."""
    record = vertex.record
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
    """Transactions that apply the event to each noderole that is in a state for it, parents before children.

    Noderoles with unreadable records are left alone. ``together`` is part of the first transaction, which has less room for
    noderoles. If no noderole is in a state for the event, nothing is yielded.
    """
    meant = [vertex for vertex in vertices if meant_for(vertex, event) and not vertex.unreadable]
    meant.sort(key=lambda vertex: (world.depth(vertex), vertex.name))
    while meant:
        part = [v for v in meant[: limits.MOST_CHANGES] if meant_for(v, event)]
        moved = apply(dict.fromkeys(part, event), now, by=by, reason=reason)
        changes = settling({v: moved[v] for v in part if v in moved} | moved, together=together)
        done = written(moved, changes)
        if changes:
            yield changes
        advance(world, done)
        left = [v for v in part if v in moved and v not in done] if done or together else []
        meant = left + meant[limits.MOST_CHANGES :]
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
        raise Conflict(f"{vertex.name} is {state}; it can be redeployed when it is neither running nor proposed")
    return settling(apply({vertex: Event.REDEPLOY}, now, by=by), (vertex,))


def advance(world: World, moved: Mapping[Vertex, NodeRole]) -> None:
    """Apply a written transaction to the world."""
    for vertex, record in moved.items():
        world.put_noderole(vertex.node.name, vertex.role, record, vertex.version + 1, vertex.mzxid)
