"""Asks for the checks that are due by the schedules of deployments, and has drifted noderoles run again where they say so.

Of each node the annealer does so that ranks first for it. No check that was asked for is noted: at a tick of a schedule and at
each sweep, each annealer finds the same checks due (engine.drift). A refresh after drift is noted (``mended``), so that a
check of its effect is due at once. All on the turn thread.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Final

from nodepool_ocb.engine import claim, drift
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.errors import OcbError
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

log = logging.getLogger(__name__)

AT_ONCE: Final = 50  # nodes that are asked about in one turn


class CheckScheduler:
    """``look`` at nodes that changed, ``due`` at a tick."""

    def __init__(self, context: AnnealerContext) -> None:
        self._context = context
        self._queue: deque[str] = deque()  # nodes that are to be looked at
        self._queued: set[str] = set()
        self._schedules: set[str] = set()

    def look(self, nodes: Iterable[str]) -> None:
        """Look at these nodes soon, where any deployment has a schedule."""
        if not self._schedules:
            return
        for fqdn in nodes:
            if fqdn not in self._queued:
                self._queued.add(fqdn)
                self._queue.append(fqdn)
        if self._queue:
            self._context.timers.at(time.monotonic(), Timer(TimerKind.CHECK_SOME))

    def look_at_all(self) -> None:
        """Read the schedules anew, Set a timer for the next tick, and look at every node."""
        context = self._context
        stored = context.world.deployments.values()
        self._schedules = {each.record.checks.schedule for each in stored if each.record.checks is not None}
        now = context.session.now()
        ticks = [tick for each in self._schedules if (tick := drift.next_tick(each, now)) is not None]
        if ticks:
            context.timers.at(time.monotonic() + min(ticks) - now, Timer(TimerKind.CHECKS))
        self.look(context.world.nodes)

    def due(self) -> None:
        """Look at some of the nodes that wait for it."""
        context = self._context
        for _ in range(min(AT_ONCE, len(self._queue))):
            fqdn = self._queue.popleft()
            self._queued.discard(fqdn)
            view = context.world.nodes.get(fqdn)
            if view is not None and not context.resting and context.ranking.of(fqdn) == 0:
                self._ask(view)
        if self._queue:
            context.timers.at(time.monotonic(), Timer(TimerKind.CHECK_SOME))

    def _ask(self, view: NodeView) -> None:
        context, now = self._context, self._context.session.now()
        events = {vertex: event for vertex in view.noderoles.values() if (event := self._event(vertex, now))}
        if events:
            moved = apply(events, now, by=context.identity)
            for vertex in (each for each, event in events.items() if event is Event.REFRESH):
                moved[vertex] = moved[vertex].amended(mended=True)
            changes = claim.settling(moved, events)
            context.send(changes, partial(self._asked, view.name, len(events)), f"checks on {view.name}")

    def _event(self, vertex: Vertex, now: float) -> Event | None:
        world = self._context.world
        if drift.due(world, vertex, now):
            return Event.CHECK
        return Event.REFRESH if drift.to_be_mended(world, vertex) else None

    def _asked(self, fqdn: str, number: int, refused: OcbError | None) -> None:
        if refused is None:
            metrics.CHECKS_ASKED.inc(number)
        else:  # changes there meanwhile wake us, and a sweep finds the rest
            log.debug("checks on %s: %s", fqdn, refused)
