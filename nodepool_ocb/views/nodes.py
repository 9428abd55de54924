"""Nodes: one a row, and one with its noderoles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from nodepool_ocb.engine import installing, maintenance, marks, powering, readiness
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.model.records import Claim, Node, State
from nodepool_ocb.views.view import View

#: The order in which a node's noderoles tell of it: errors hide behind nothing.
WORST: Final = (State.ERROR, State.TRANSITION, State.TODO, State.BLOCKED, State.PROPOSED, State.ACTIVE)


class NodeRow(View, frozen=True, kw_only=True):
    """A node at a glance."""

    name: str
    deployment: str
    alive: bool  # a virtual one always is
    available: bool
    held: str | None  # the author, end and reason of the hold
    state: State | None  # its worst noderole's
    noderoles: str | None  # the number in each state: "1 ERROR, 3 ACTIVE"
    tags: tuple[str, ...]
    labels: Mapping[str, str]
    rack: str | None
    since: float
    reason: str | None
    busy: str | None  # the noderole for which it is claimed


class NoderoleSummary(NamedTuple):
    """The noderoles of a node in a row."""

    state: State | None
    noderoles: str | None


class BoundOnNode(View, frozen=True, kw_only=True):
    """A noderole of the node."""

    noderole: str
    state: State
    since: float
    reason: str | None


class NodeDocument(View, frozen=True, kw_only=True):
    """One node."""

    name: str
    record: Node
    reason: str | None  # why it is not alive, its mark included, or which annealer does not reach it
    held: str | None  # the author, end and reason of the hold
    use: str | None = None  # the pool that has the machine, or had it last
    epoch: int
    claim: Claim | None
    noderoles: tuple[BoundOnNode, ...]  # the worst first


def rows(
    world: World,
    deployment: str | None = None,
    tags: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    among: Collection[str] | None = None,
    counts: Mapping[str, Counter[State]] | None = None,
    *,
    now: float,
) -> list[NodeRow]:
    """The nodes by name: those of the deployment, with all of these tags and labels; of ``among``, if it is given.

    ``counts``: the number of noderoles in each state, of a world without noderoles.
    """
    return [
        _row(view, node, now, summary(view.noderoles.values()) if counts is None else summed(counts[view.name]))
        for _, view in sorted(world.nodes.items())
        if (node := view.record) is not None
        and (among is None or view.name in among)
        and deployment in (None, node.deployment)
        and set(tags) <= set(node.tags)
        and (labels or {}).items() <= node.labels.items()
    ]


def summary(vertices: Iterable[Vertex]) -> NoderoleSummary:
    """The worst state of noderoles, and the number in each state."""
    return summed(Counter(vertex.record.state for vertex in vertices))


def summed(counts: Counter[State]) -> NoderoleSummary:
    """The same from the number in each state."""
    states = [state for state in WORST if counts[state]]
    numbers = ", ".join(f"{counts[state]} {state}" for state in states)
    return NoderoleSummary(states[0] if states else None, numbers or None)


def _row(view: NodeView, node: Node, now: float, own: NoderoleSummary) -> NodeRow:
    return NodeRow(
        name=view.name,
        deployment=node.deployment,
        alive=node.alive or node.virtual,
        available=node.available,
        held=_held(node, now),
        state=own.state,
        noderoles=own.noderoles,
        tags=node.tags,
        labels=node.labels,
        rack=node.rack,
        since=node.since,
        reason=marks.why(node) or marks.suspected(node) or marks.unprobed(node),
        busy=view.claim.noderole if view.claim else None,
    )


def _held(node: Node, now: float) -> str | None:
    return maintenance.sentence(node.hold) if maintenance.holds(node.hold, now) else None


def _use(view: NodeView, now: float) -> str | None:
    """The pool that has the machine or had it last, and why the machine is not off yet after that."""
    waits = powering.off_sentence(view, now)
    return "; ".join(each for each in (installing.use_sentence(view), waits) if each) or None


def document(view: NodeView, node: Node, now: float) -> NodeDocument:
    """The node with the record ``node``."""
    ordered = sorted(view.noderoles.values(), key=lambda each: (WORST.index(each.record.state), each.name))
    bound = (
        BoundOnNode(noderole=v.name, state=v.record.state, since=v.record.since, reason=readiness.standing(v))
        for v in ordered
    )
    why = marks.why(node) or marks.suspected(node) or marks.unprobed(node)
    return NodeDocument(
        name=view.name,
        record=node,
        reason=why,
        held=_held(node, now),
        use=_use(view, now),
        epoch=view.epoch,
        claim=view.claim,
        noderoles=tuple(bound),
    )
