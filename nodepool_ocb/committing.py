"""What people do to noderoles that exist: commit, propose, retry, refresh, redeploy, end; any number of them at once.

Each gives transactions one after the other, and each of these is whole by itself: stopping between two of them leaves some
noderoles moved and the others as they were. While they are given the world is brought to what the ones before will have
made of it, so the caller writes each before it takes the next, and begins anew with a fresh world if one is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.claim import kept, settling
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import Change, NodeRole, State
from nodepool_ocb.noderole import Event, after, apply, settle, with_hooks
from nodepool_ocb.world import Vertex, World

AT_ONCE: Final = 150  # noderoles in a transaction, and as many neighbours

#: From which states each of these makes sense; in a scope of many, the others are left alone.
MEANT_FOR: Final = {
    Event.COMMIT: frozenset({State.PROPOSED}),
    Event.PROPOSE: frozenset({State.BLOCKED, State.TODO, State.ACTIVE, State.ERROR}),
    Event.RETRY: frozenset({State.ERROR}),
    Event.REFRESH: frozenset({State.ACTIVE}),
    Event.END: frozenset({State.TRANSITION}),
}


def apply_to(
    world: World,
    vertices: Iterable[Vertex],
    event: Event,
    now: float,
    by: str | None = None,
    reason: str | None = None,
) -> Iterator[list[Change]]:
    """Transactions that apply the event to each noderole that is in a state for it, those above before those below.

    Those whose records cannot be read are left alone.
    """
    meant = [vertex for vertex in vertices if vertex.record.state in MEANT_FOR[event] and not vertex.unreadable]
    meant.sort(key=lambda vertex: (world.depth(vertex), vertex.name))
    for start in range(0, len(meant), AT_ONCE):
        part = [vertex for vertex in meant[start : start + AT_ONCE] if vertex.record.state in MEANT_FOR[event]]
        moved = apply(dict.fromkeys(part, event), now, by=by, reason=reason)
        own_first = {vertex: moved[vertex] for vertex in part if vertex in moved} | moved
        written = kept(own_first, first=())
        if written:
            yield list(settling(written))
            advance(world, written)


def redeploy(vertex: Vertex, now: float, by: str | None = None) -> list[Change]:
    """Run a noderole again from the start, a destructive one too; raises Conflict while it runs or is PROPOSED."""
    record = vertex.record
    if record.state in (State.TRANSITION, State.PROPOSED):
        raise Conflict(f"{vertex.name} is {record.state}; it can be redeployed when it is neither running nor proposed")
    fresh = after(replace(record, once=None, state=State.ERROR), Event.RETRY, now, by)
    return list(settling(with_hooks(settle({vertex: fresh}, now)), first=vertex))


def advance(world: World, moved: dict[Vertex, NodeRole]) -> None:
    """Bring the world to where a transaction that was written has taken it."""
    for vertex, record in moved.items():
        world.put_noderole(vertex.node.name, vertex.role, record, vertex.version + 1, vertex.mzxid)
