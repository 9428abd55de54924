"""Which noderole this annealer claims, and when: its turn, its slots, and what it leaves to others.

All on the turn thread. What becomes of a claim is in runs: ``executor``. An answer that says no, or none at all, makes the cache
read again before anything is tried again. Noderoles with nothing to run are done here, many in one transaction.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from nodepool_ocb.engine import aside, claim, instants
from nodepool_ocb.engine.acting.backoff import backoff_left
from nodepool_ocb.engine.noderole import Event, apply, claimable
from nodepool_ocb.engine.readiness import runnable, unsettled_child
from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.errors import Conflict, NotFound, OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import NodeRole, State
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.machines.faults import Faults
from nodepool_ocb_annealer.machines.judging import Judging
from nodepool_ocb_annealer.refusals import Refusals
from nodepool_ocb_annealer.runs.attempts import Attempt
from nodepool_ocb_annealer.runs.executor import COUNT, Executor
from nodepool_ocb_annealer.runs.sealed import SealedWork
from nodepool_ocb_annealer.runs.slots import SlotPool
from nodepool_ocb_annealer.runs.tidying import Tidying
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

log = logging.getLogger(__name__)

MOST_IN_FLIGHT: Final = 400  # claims of instant jigs at once: beyond this the server gains nothing
AGAIN_SECONDS: Final = 0.5


class Claims:
    """The claims of an annealer; ``executor`` has the runs that they begin, one for each node."""

    def __init__(
        self,
        context: AnnealerContext,
        slots: SlotPool,
        tidying: Tidying,
        judging: Judging,
        has_code: Callable[[Vertex], bool],
    ) -> None:
        self._context, self._slots, self._tidying, self._judging = context, slots, tidying, judging
        self._has_code = has_code
        self._carried: dict[str, instants.Carried] = {}  # nodes whose noderoles are being done at once
        self._waiting_for_slot: set[str] = set()  # nodes with work for which there was no slot
        self._checks_waiting: set[str] = set()  # nodes with a check for which there was no spare slot
        self._waiting_for_capacity: set[str] = set()  # nodes with work that came when MOST_IN_FLIGHT were
        self._ready_since: dict[str, float] = {}  # monotonic
        self._faults = Faults()
        self._refusals = Refusals()
        self._sealed = SealedWork()
        self.executor = Executor(context, slots, tidying, judging, self, self._faults)

    @property
    def trouble(self) -> str | None:
        """Why this host is not fit to work, in one sentence."""
        return self._faults.trouble

    def __len__(self) -> int:
        return len(self.executor) + len(self._carried)

    def runs(self) -> set[str]:
        """The runs that go on here."""
        return self.executor.runs()

    # -- one node --

    def consider(self, fqdn: str) -> None:
        """Claim the next noderole of a node, if there is one, it is our turn, and there is a slot."""
        context = self._context
        if fqdn in self.executor:
            self.executor.look(fqdn)
            return
        view = context.world.nodes.get(fqdn)
        if view is None or context.resting or not context.session.trusted or fqdn in self._carried:
            return
        if view.claim is not None:
            self._ready_since.pop(fqdn, None)  # ranks count anew from when it is free
            self._give_back(view)
            return
        vertex = self.next(view)
        if vertex is None:
            self._ready_since.pop(fqdn, None)
        elif self._well(fqdn) and self._our_turn(fqdn):
            self._claim(vertex)

    def void(self) -> None:
        """The session is over: nothing is ours any more."""
        self.executor.void()
        self._carried.clear()

    def next(self, view: NodeView, moved: dict[Vertex, NodeRole] | None = None) -> Vertex | None:
        """The noderole to run next: of the highest rank, then no check, then the least deep in the graph, then by name."""
        context, now = self._context, self._context.session.now()
        planned: Mapping[Vertex, NodeRole] = moved or {}
        candidates: list[Vertex] = []
        for vertex in _claimables(view, planned):
            record = planned.get(vertex, vertex.record)
            if record.state is State.TRANSITION and moved is None and vertex.lacking and not record.cancel_reason:
                self._let_go(vertex)
            elif runnable(context.world, vertex, now, context.jigs, moved):
                calls = record.check is None  # a check calls no hook
                if (not calls or self._has_code(vertex)) and self._can_open(vertex):
                    candidates.append(vertex)
            elif until := aside.ends(context.world, vertex, now):
                context.timers.at(time.monotonic() + until - now, Timer(TimerKind.CONSIDER, view.name))
            elif left := backoff_left(record, now):
                context.timers.at(time.monotonic() + left, Timer(TimerKind.CONSIDER, view.name))
            elif record.state is State.TODO and unsettled_child(vertex, planned) is not None:
                context.timers.at(time.monotonic() + AGAIN_SECONDS, Timer(TimerKind.CONSIDER, view.name))
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        highest = max(vertex.record.rank for vertex in candidates)
        first = [vertex for vertex in candidates if vertex.record.rank == highest]
        if len(first) == 1:
            return first[0]
        return min(first, key=lambda each: (each.record.check is not None, context.world.depth(each), each.name))

    def _our_turn(self, fqdn: str) -> bool:
        now = time.monotonic()
        since = self._ready_since.setdefault(fqdn, now)
        due = since + self._context.ranking.of(fqdn) * self._context.settings.steal_delay_seconds
        if due > now:
            self._context.timers.at(due, Timer(TimerKind.CONSIDER, fqdn))
            return False
        return True

    def _well(self, fqdn: str) -> bool:
        """Whether this host is fit to work on the node, and its claims are not refused; else it looks again later."""
        now, record = time.monotonic(), self._context.world.nodes[fqdn].record
        if self._judging.standing.trouble and not (record and record.virtual):
            self._ready_since.pop(fqdn, None)
            return False  # everything is looked at when that is over
        if record and record.suspicion and record.suspicion.by == self._context.identity:
            self._ready_since.pop(fqdn, None)
            return False  # a probe that reaches it takes the suspicion back, and with it the node is looked at
        until = self._faults.until(fqdn, now) or self._refusals.until(fqdn, now)
        if until is not None:
            self._ready_since.pop(fqdn, None)
            self._context.timers.at(until, Timer(TimerKind.CONSIDER, fqdn))
        return until is None

    def _claim(self, vertex: Vertex) -> None:
        fqdn = vertex.node.name
        if len(self) >= MOST_IN_FLIGHT:
            self._waiting_for_capacity.add(fqdn)
            return
        if vertex.record.check is not None and vertex.record.state is State.ACTIVE and not self._slots.spare:
            self._checks_waiting.add(fqdn)
            return
        if self._wary or not self._slots.room(vertex):
            self._waiting_for_slot.add(fqdn)
            return
        self._ready_since.pop(fqdn, None)
        if self._at_once(vertex):
            return
        try:
            self.executor.begin(vertex)
        except (Conflict, NotFound) as incomplete:
            self.refused(vertex, incomplete)

    # -- noderoles with nothing to run --

    @property
    def identity(self) -> str:
        return self._context.identity

    def name_run(self, view: NodeView) -> str:
        return self._slots.name_run(view)

    def at_once(self, view: NodeView, moved: Mapping[Vertex, NodeRole]) -> list[Vertex]:
        """The noderoles of a node that may start and have nothing to run, ``moved`` being what is to be written with them.

        Whether the node is free was seen by whoever asks: ``consider`` and ``next``, or the end of a run on it.
        """
        context, now = self._context, self._context.session.now()
        return [
            vertex
            for vertex in _claimables(view, moved)
            if runnable(context.world, vertex, now, context.jigs, moved) and self._slots.instant(vertex)
        ]

    def _at_once(self, vertex: Vertex) -> bool:
        """Do all of the node that has nothing to run, if this noderole has nothing to."""
        context = self._context
        carried = self.carry(vertex.node) if self._slots.instant(vertex) else None
        if carried is None:
            return False
        self._carried[carried.node] = carried
        context.send(carried.changes, partial(self._written_at_once, vertex, carried), f"claim of {vertex.name}")
        return True

    def carry(self, view: NodeView, ended: instants.Ended | None = None) -> instants.Carried | None:
        """All of a node that has nothing to run, behind the run that ``ended`` on it; None where that is nothing."""
        return instants.carry(self._context.world, view, self, self._context.session.now(), ended)

    def _written_at_once(self, vertex: Vertex, carried: instants.Carried, refused: OcbError | None) -> None:
        if self._carried.get(carried.node) is not carried:
            return
        del self._carried[carried.node]
        if refused is not None:
            self.refused(vertex, refused)
        else:
            self._refusals.well(carried.node)
            self.carried(carried)
            self.consider(carried.node)
        self.retry_waiting()

    def carried(self, carried: instants.Carried) -> None:
        """Noderoles with nothing to run were done."""
        for grant in carried.done:
            COUNT[Event.CLAIM].inc()
            COUNT[Event.SUCCEED].inc()
            metrics.RUNS.labels(grant.jig or "", "succeeded").inc()
            self._tidying.ended(grant)

    def claimed(self, fqdn: str) -> None:
        """A claim of the node was written."""
        self._refusals.well(fqdn)

    def ended(self, vertex: Vertex) -> None:
        """A run of the noderole came to an end that is written."""
        self._sealed.well(vertex.name)

    def refused(self, vertex: Vertex, refused: OcbError) -> None:
        """A claim was refused: it is tried later and later, and told once where others are not the reason any more."""
        now = time.monotonic()
        wait = self._refusals.refused(vertex.node.name, now)
        if self._refusals.news(vertex.node.name, str(refused)):
            log.warning("cannot claim %s, and it is tried again: %s", vertex.name, refused)
        self._context.timers.at(now + wait, Timer(TimerKind.CONSIDER, vertex.node.name))

    def set_aside(self, attempt: Attempt) -> None:
        """Its run cannot be prepared here: others may try at once, or all are to wait where no host can."""
        name, reason, own = attempt.name, attempt.answer.reason, attempt.answer.own
        wait = self._sealed.aside(name, time.monotonic())
        attempt.pause_seconds = 0.0 if own else wait
        if self._sealed.news(name, reason):
            log.warning("%s is %s: %s", name, "left to others" if own else "put off", reason)

    def _can_open(self, vertex: Vertex) -> bool:
        """Whether its run may be prepared; else it looks again later."""
        until = self._sealed.until(vertex.name, time.monotonic())
        if until is not None:
            self._context.timers.at(until, Timer(TimerKind.CONSIDER, vertex.node.name))
        return until is None

    @property
    def _wary(self) -> bool:
        """Whether this host fails at machine after machine, and tries one at a time."""
        return self._faults.troubled and len(self.executor) > 0

    def retry_waiting(self) -> None:
        """Look again at nodes that waited for others, while what they waited for is there: each is looked at once."""
        while self._waiting_for_capacity and len(self) < MOST_IN_FLIGHT:
            self.consider(self._waiting_for_capacity.pop())
        while self._waiting_for_slot and len(self) < MOST_IN_FLIGHT and self._slots.free and not self._wary:
            self.consider(self._waiting_for_slot.pop())
        while self._checks_waiting and len(self) < MOST_IN_FLIGHT and self._slots.spare and not self._wary:
            self.consider(self._checks_waiting.pop())

    def _give_back(self, view: NodeView) -> None:
        """Delete a claim of ours that nothing stands behind: its transaction's answer was lost, or the session that it was
        made in, which may live on though we were told that it is over.
        """
        context = self._context
        if view.claim and view.claim.annealer == context.identity:
            context.send(claim.giving_back(view), lambda _: None, f"giving back {view.name}")

    def _let_go(self, vertex: Vertex) -> None:
        """Nobody runs it, and a parent is not well any more: it is to wait again."""
        context = self._context
        hidden = vertex.unreadable or paths.claim(vertex.node.name) in context.world.unreadable
        if vertex.node.claim is None and not hidden and context.ranking.of(vertex.node.name) == 0:
            now = context.session.now()
            moved = apply({vertex: Event.LOSE}, now, by=context.identity)
            account = claim.accounted(vertex, now, "abandoned", "a parent is not well any more")
            changes = claim.settling(moved, (vertex,), list(account))
            context.send(changes, lambda _: None, f"letting go {vertex.name}")


def _claimables(view: NodeView, moved: Mapping[Vertex, NodeRole]) -> list[Vertex]:
    """The noderoles of a node whose own state lets them be claimed, ``moved`` being what is to be written."""
    turning = [vertex for vertex in moved if vertex.node is view and vertex not in view.ready]
    return [vertex for vertex in [*view.ready, *turning] if claimable(moved.get(vertex, vertex.record))]
