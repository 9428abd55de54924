"""Marks: a person, a hook or the machine itself says that a node is not alive, and no probe says otherwise while that holds.

A mark holds until its end (by ZooKeeper's clock), or until a marker that may lift it says that the node is alive. A marker that
may lift a mark may also replace it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model.aliveness import Mark, Marker
from nodepool_ocb.model.records import Node

#: Marker → the markers of the marks that it may lift.
LIFTS: Final[Mapping[Marker, frozenset[Marker]]] = {
    Marker.PERSON: frozenset(Marker),
    Marker.HOOK: frozenset({Marker.HOOK}),
    Marker.MACHINE: frozenset({Marker.HOOK, Marker.MACHINE}),  # it knows best that it is back
}

#: The arguments about a node's aliveness: whether it is alive, the reason, and the duration or the end.
WORD: Final = ("alive", "reason", "hold_seconds", "until")

MACHINE_SECONDS: Final = 3600.0  # a machine that does not come back to say so is asked again after this


def holds(node: Node, now: float) -> bool:
    """Whether a mark keeps the node from being alive."""
    mark = node.mark
    return not node.alive and mark is not None and (mark.until is None or now < mark.until)


def suspected(node: Node) -> str | None:
    """Which annealer does not reach it, and why, while it counts as alive.

    >>> from nodepool_ocb.model.aliveness import Suspicion
    >>> suspected(Node(suspicion=Suspicion(by="a1", reason="connect: timed out", since=0.0)))
    'annealer a1 does not reach it: connect: timed out'
    """
    found = node.suspicion
    return f"annealer {found.by} does not reach it: {found.reason}" if found is not None else None


def why(node: Node) -> str | None:
    """The reason why it is not alive, in one sentence: its mark, or the result of the last probe.

    >>> why(Node(mark=Mark(kind=Marker.PERSON, by="ann", reason="new disk", since=0.0, until=3600.0)))
    'marked by ann until 1970-01-01T01:00:00Z: new disk'
    """
    mark = node.mark
    if mark is None or node.alive:
        return node.reason
    who = {
        Marker.PERSON: mark.by,
        Marker.HOOK: f"a hook of {mark.by}",
        Marker.MACHINE: f"the machine itself ({mark.by})",
    }
    until = f" until {datetime.fromtimestamp(mark.until, UTC):%Y-%m-%dT%H:%M:%SZ}" if mark.until is not None else ""
    return f"marked by {who[mark.kind]}{until}" + (f": {mark.reason}" if mark.reason else "")


def unprobed(node: Node) -> str | None:
    """Why a node is not alive of which no probe and no mark says anything; None for another node.

    >>> unprobed(Node(addresses=("10.0.0.1",))), unprobed(Node(alive=True))
    ('no annealer has probed it yet', None)
    >>> unprobed(Node())
    'no annealer has probed it yet; it has no address, so its name must resolve'
    """
    if node.alive or node.virtual or why(node) is not None:
        return None
    return "no annealer has probed it yet" + ("" if node.addresses else "; it has no address, so its name must resolve")


def _why_not(fqdn: str, node: Node, marker: Marker, now: float) -> str | None:
    """Why this marker may not mark the node now; None if it may."""
    if node.mark is None or not holds(node, now) or node.mark.kind in LIFTS[marker]:
        return None
    return f"node {fqdn} is {why(node)}; only a person lifts that: nodepool-ocb node alive {fqdn}"


def said(
    fqdn: str,
    node: Node,
    marker: Marker,
    by: str | None,
    now: float,
    *,
    alive: bool,
    reason: str | None = None,
    hold_seconds: float | None = None,
    until: float | None = None,
) -> dict[str, Any]:
    """The fields of the node after a marker says that it is alive or not. A hook that repeats its mark changes nothing.

    A hook's mark is also ignored where it may not mark the node. Raises Conflict if another marker may not. Raises Invalid for a
    virtual node that would not be alive, and for an end that has passed.
    """
    refused = _why_not(fqdn, node, marker, now)
    if marker is Marker.HOOK and (refused or node.virtual):
        return {}
    if refused:
        raise Conflict(refused)
    if node.virtual and not alive:
        raise Invalid(
            f"node {fqdn} is virtual: it is always alive; to keep work away from it: nodepool-ocb node unavailable {fqdn}"
        )
    if alive:
        return {"alive": True, "reason": None, "mark": None}
    if hold_seconds is None and until is None and marker is Marker.MACHINE:
        hold_seconds = MACHINE_SECONDS
    until = now + hold_seconds if hold_seconds is not None else until
    if until is not None and until <= now:
        raise Invalid(f"the mark of node {fqdn} would end before it begins; give a time in the future")
    mark = Mark(kind=marker, by=by or "unknown", reason=reason, since=now, until=until)
    same = node.mark is not None and (node.mark.kind, node.mark.reason) == (Marker.HOOK, reason)
    if same and marker is Marker.HOOK and holds(node, now):
        return {}
    return {"alive": False, "reason": None, "mark": mark}
