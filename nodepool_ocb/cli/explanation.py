"""Why a noderole stands where it stands, followed up the graph to what really holds it. Pure.

The reasons of one noderole are those by which an annealer decides (hindrance.py). A noderole that is BLOCKED waits for
parents that may wait themselves: its *causes* are the noderoles at the upper end, the failed ones first.
"""

from __future__ import annotations

import msgspec

from nodepool_ocb.hindrance import Code, Reason, why_not
from nodepool_ocb.model import State
from nodepool_ocb.noderole import satisfied
from nodepool_ocb.world import Vertex, World


class Cause(msgspec.Struct, frozen=True):
    """A noderole that others wait for, and that waits for none itself."""

    vertex: Vertex
    chain: tuple[Vertex, ...]  # from the noderole that was asked about up to this one, both included
    reasons: tuple[Reason, ...]  # what holds it


class Explanation(msgspec.Struct, frozen=True):
    """All about one noderole; ``failed`` is the one to look at first: itself, or an ancestor in ERROR."""

    vertex: Vertex
    reasons: tuple[Reason, ...]
    causes: tuple[Cause, ...]

    @property
    def failed(self) -> Vertex | None:
        among = [self.vertex, *(cause.vertex for cause in self.causes)]
        return next((vertex for vertex in among if vertex.record.state is State.ERROR), None)


def explain(world: World, vertex: Vertex, now: float) -> Explanation:
    """Every reason in order: failed ancestors however far above, then what holds the noderole itself."""
    chains = _chains(vertex)
    own = why_not(world, vertex, now)
    told = {reason.subject for reason in own}
    causes = [Cause(each, chain, tuple(why_not(world, each, now))) for each, chain in chains.items()]
    far = [_ancestor_failed(cause) for cause in causes if _failed(cause) and cause.vertex.name not in told]
    near = [reason for reason in own if reason.code is Code.PARENT_ERROR]
    rest = [reason for reason in own if reason.code is not Code.PARENT_ERROR]
    return Explanation(vertex, (*near, *far, *rest), tuple(causes))


def _failed(cause: Cause) -> bool:
    return cause.vertex.record.state is State.ERROR


def _ancestor_failed(cause: Cause) -> Reason:
    vertex, levels = cause.vertex, len(cause.chain) - 1
    text = f"{vertex.name}, {levels} levels above, failed: {vertex.record.reason or 'no reason was recorded'}"
    advice = f"mend the cause, then: nodepool-ocb noderole retry {vertex.name}"
    return Reason(Code.PARENT_ERROR, vertex.name, vertex.record.since, text, advice)


def _chains(vertex: Vertex) -> dict[Vertex, tuple[Vertex, ...]]:
    """The causes, each with a shortest chain to it: failed ones first, then the nearest, then by name."""
    if vertex.record.state is not State.BLOCKED:
        return {}
    found: dict[Vertex, tuple[Vertex, ...]] = {}
    chains: dict[Vertex, tuple[Vertex, ...]] = {vertex: (vertex,)}
    queue = [vertex]
    for each in queue:  # grows while it is walked
        for parent in sorted(each.parents, key=lambda above: above.name):
            if parent in chains or satisfied(parent.record):
                continue
            chains[parent] = (*chains[each], parent)
            if parent.record.state is State.BLOCKED:
                queue.append(parent)
            else:
                found[parent] = chains[parent]
    order = sorted(found, key=lambda v: (v.record.state is not State.ERROR, len(found[v]), v.name))
    return {each: found[each] for each in order}
