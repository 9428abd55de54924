"""Whether a slot of an annealer is held longer than the run in it can last. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nodepool_ocb.engine import installing
from nodepool_ocb.engine.acting.reasons import Code, Reason
from nodepool_ocb.engine.world import Vertex, World

#: Beyond the time-out of its role: time to end the former run, to connect again, and to write the outcome.
BEYOND_SECONDS: Final = 180.0


def overdue(world: World, vertex: Vertex, now: float) -> Reason | None:
    """The noderole with a run that should be over, and the annealer that still holds its node; None if none does."""
    claim, stored = vertex.node.claim, world.roles.get(vertex.role)
    if claim is None or stored is None or claim.noderole != vertex.name or installing.of_vertex(vertex) is not None:
        return None  # an installation has a deadline for each of its steps
    longest = stored.record.timeout_seconds + BEYOND_SECONDS
    if now - claim.since <= longest:
        return None
    text = f"annealer {claim.annealer} holds it for {now - claim.since:.0f} s, and a run of it lasts {longest:.0f} s at most"
    advice = f"nodepool-ocb noderole cancel {vertex.name}; if nothing changes, start annealer {claim.annealer} again"
    return Reason(Code.OVERDUE, vertex.name, claim.since, text, advice)


def all_overdue(world: World, now: float) -> Iterator[Reason]:
    """All overdue claims, by node."""
    for _, view in sorted(world.nodes.items()):
        for vertex in view.noderoles.values() if view.claim is not None else ():
            if found := overdue(world, vertex, now):
                yield found
