"""Unfinished work of other writers: unsettled noderoles, and deaths that are larger than a transaction.

The writer of a change settles its neighbours in the same transaction, and continues a death. The annealer that ranks
first for the node does the remaining work a moment later, then the next one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from functools import partial
from typing import Final

from nodepool_ocb.engine import claim, liveness
from nodepool_ocb.engine.noderole import placed, settle
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.errors import OcbError
from nodepool_ocb.model.records import State
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.refusals import Refusals
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

log = logging.getLogger(__name__)

SETTLING_SECONDS: Final = 0.1  # the writer of a change settles it too; only those that stay unsettled are ours
_QUICK: Final = frozenset({State.BLOCKED, State.ACTIVE})  # their place depends on the number of waiting parents alone
QUIET: Final = 5  # refusals in a row of settled changes: others were faster


class Reconciler:
    """Sets the timers, and writes the remaining changes at their times; all on the turn thread."""

    def __init__(self, context: AnnealerContext) -> None:
        self._context = context
        self._due: list[Vertex] = []  # that came due in this turn: they are settled together
        self._refusals = Refusals(1, SETTLING_SECONDS, QUIET)

    # -- waking --

    def look(self, vertices: Iterable[Vertex], nodes: Iterable[str]) -> None:
        """Set a timer for each of these that needs one."""
        for vertex in vertices:
            if _unsettled(vertex):
                self._schedule(Timer(TimerKind.SETTLE, vertex.name), vertex.node.name)
        now = self._context.session.now()
        for fqdn in nodes:
            view = self._context.world.nodes.get(fqdn)
            if view is not None and view.record is not None and liveness.unfinished(view.record, now):
                self._schedule(Timer(TimerKind.GO_ON_DYING, fqdn), fqdn)

    def look_at_all(self) -> None:
        """As ``look``, at everything."""
        world = self._context.world
        self.look((each for each in world.vertices() if not _at_rest(each)), world.nodes)

    def _schedule(self, timer: Timer, fqdn: str) -> None:
        wait = SETTLING_SECONDS + self._context.ranking.of(fqdn) * self._context.settings.steal_delay_seconds
        self._context.timers.at(time.monotonic() + wait, timer)

    # -- timers --

    def settle(self, noderole: str) -> None:
        """Have ``write`` settle it, if that is still to be done."""
        vertex = self._context.world.vertex(noderole)
        if vertex is not None and _unsettled(vertex):
            self._due.append(vertex)
        else:
            self._refusals.well(str(Timer(TimerKind.SETTLE, noderole)))

    def write(self) -> None:
        """Write the changes of the rule about neighbours for all due noderoles."""
        due, self._due = self._due, []
        moved = settle({}, self._context.session.now(), also=due)
        for changes in claim.settlings(moved):
            self._context.send(changes, partial(self._settled, list(claim.written(moved, changes))), "settling")

    def _settled(self, part: list[Vertex], refused: OcbError | None) -> None:
        for vertex in part:  # one that moved on must not strand the others
            self._again(Timer(TimerKind.SETTLE, vertex.name), refused)

    def go_on_dying(self, fqdn: str) -> None:
        """Write the next part of a node's death; that makes the next timer."""
        context = self._context
        view = context.world.nodes.get(fqdn)
        if view is not None and view.record is not None:
            changes = liveness.went_on(view, context.session.now(), context.identity)
            if not changes:  # others have written it all
                self._refusals.well(str(Timer(TimerKind.GO_ON_DYING, fqdn)))
            context.send(changes, partial(self._went_on, fqdn), f"death of {fqdn}")

    def _went_on(self, fqdn: str, refused: OcbError | None) -> None:
        self._again(Timer(TimerKind.GO_ON_DYING, fqdn), refused)
        if refused is None:
            self.look((), [fqdn])

    def _again(self, timer: Timer, refused: OcbError | None) -> None:
        """Try again after growing pauses; log a continuing refusal once, because its cause may be lost."""
        name, now = str(timer), time.monotonic()
        if refused is None:
            self._refusals.well(name)
            return
        wait = self._refusals.refused(name, now)
        if self._refusals.news(name, str(refused)):
            log.warning("%s was refused again and again, and is tried again: %s", name, refused)
        self._context.timers.at(now + wait, timer)


def _unsettled(vertex: Vertex) -> bool:
    if vertex.record.state in _QUICK and vertex.certain:  # as ``settled`` says; most noderoles that changed are such
        return (vertex.record.state is State.BLOCKED) is not (vertex.waiting > 0)
    return placed(vertex, vertex.record, 0, 0.0) is not vertex.record


def _at_rest(vertex: Vertex) -> bool:
    return vertex.record.state is State.ACTIVE and not vertex.waiting
