"""The events that an action of a rollout gives to a noderole, from the kind of the rollout and the noderole's state. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodepool_ocb.engine.noderole import Event, renewing, withdrawable
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.model.records import State
from nodepool_ocb.rollout.records import RolloutRecord
from nodepool_ocb.rollout.step import Directive

#: Directive → state of a noderole → the event that it gets.
MOVES: Final[Mapping[Directive, Mapping[State, Event]]] = {
    Directive.COMMIT: {State.PROPOSED: Event.COMMIT},
    Directive.RETRY: {State.PROPOSED: Event.COMMIT, State.ERROR: Event.RETRY},
    Directive.RECALL: {State.TODO: Event.PROPOSE, State.BLOCKED: Event.PROPOSE},
    Directive.CANCEL: {State.TODO: Event.PROPOSE, State.BLOCKED: Event.PROPOSE, State.TRANSITION: Event.CANCEL},
}

#: The same for a rollout that reruns ACTIVE noderoles: those that have not run since are refreshed; waiting ones are withdrawn.
MOVES_AGAIN: Final[Mapping[Directive, Mapping[State, Event]]] = {
    Directive.COMMIT: {State.ACTIVE: Event.REFRESH},
    Directive.RETRY: {State.ACTIVE: Event.REFRESH, State.ERROR: Event.RETRY},
    Directive.RECALL: {State.ACTIVE: Event.WITHDRAW},
    Directive.CANCEL: {State.ACTIVE: Event.WITHDRAW, State.TRANSITION: Event.CANCEL},
}

#: The same for a rollout that redeploys. A noderole that waits is withdrawn; one that is no redeployment any more is proposed.
MOVES_REDEPLOY: Final[Mapping[Directive, Mapping[State, Event]]] = {
    Directive.COMMIT: {State.PROPOSED: Event.COMMIT, State.ACTIVE: Event.REDEPLOY},
    Directive.RETRY: {State.PROPOSED: Event.COMMIT, State.ACTIVE: Event.REDEPLOY, State.ERROR: Event.RETRY},
    Directive.RECALL: {State.TODO: Event.WITHDRAW, State.BLOCKED: Event.WITHDRAW},
    Directive.CANCEL: {State.TODO: Event.WITHDRAW, State.BLOCKED: Event.WITHDRAW, State.TRANSITION: Event.CANCEL},
}


def event(head: RolloutRecord, directive: Directive, vertex: Vertex, outdated: bool) -> Event | None:
    """The event of a noderole. ``outdated``: it is to run again, and has not run since the rollout began."""
    table = MOVES if head.again is None else MOVES_REDEPLOY if head.redeploy else MOVES_AGAIN
    found = table[directive].get(vertex.record.state)
    match found:
        case Event.REFRESH if not outdated or renewing(vertex.record) or vertex.destructive:
            return None
        case Event.REDEPLOY if not outdated:
            return None
        case Event.WITHDRAW if head.redeploy:
            return Event.WITHDRAW if withdrawable(vertex.record) else Event.PROPOSE
        case Event.WITHDRAW if not (outdated and renewing(vertex.record)):
            return None
    return found
