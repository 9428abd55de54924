"""The choice and the time of this annealer's claims: the next noderole of a node, and the slot for it.

All on the turn thread. ``stealing`` has the work that is left to others, ``runs.executor`` the work after a claim. After
a refusal, or a lost answer, the cache reads again before the next attempt. Noderoles of instant jigs are completed here,
many in one transaction.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from nodepool_ocb.engine import claim, maintenance
from nodepool_ocb.engine.acting.backoff import backoff_left
from nodepool_ocb.engine.inline_runs import EndedRun, InlineBatch, claimables, complete_inline
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.readiness import runnable, unsettled_child
from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.errors import Conflict, NotFound, OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import NodeRole, State
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.machines.faults import Faults
from nodepool_ocb_annealer.refusals import Refusals
from nodepool_ocb_annealer.runs.attempts import Attempt
from nodepool_ocb_annealer.runs.decrypt_backoff import DecryptBackoff
from nodepool_ocb_annealer.runs.executor import COUNT, Executor, RunParts
from nodepool_ocb_annealer.stealing import Stealing
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

log = logging.getLogger(__name__)

MOST_IN_FLIGHT: Final = 400  # claims of instant jigs at once: beyond this the server gains nothing
AGAIN_SECONDS: Final = 0.5


class Claims:
    """The claims of an annealer; ``executor`` has the runs that they begin, one for each node."""

    def __init__(self, context: AnnealerContext, parts: RunParts, has_code: Callable[[Vertex], bool]) -> None:
        self._context, self._has_code = context, has_code
        self._slots, self._tidying, self._judging = parts
        self._inline: dict[str, InlineBatch] = {}  # node → the batch with its transaction sent
        self._stealing = Stealing(context, self._slots, self._inline)
        self._waiting_for_slot: set[str] = set()  # nodes with work for which there was no slot
        self._checks_waiting: set[str] = set()  # nodes with a check for which there was no spare slot
        self._waiting_for_capacity: set[str] = set()  # nodes with work that came when MOST_IN_FLIGHT were
        self._faults = Faults()
        self._refusals = Refusals()
        self._sealed = DecryptBackoff()
        self.executor = Executor(context, parts, self, self._faults)

    @property
    def trouble(self) -> str | None:
        """Why this host is not fit to work, in one sentence."""
        return self._faults.trouble

    def __len__(self) -> int:
        return len(self.executor) + len(self._inline)

    # -- one node --

    def consider(self, fqdn: str) -> None:
        """Claim the next noderole of a node, if there is one, it is our turn, and there is a slot."""
        context = self._context
        if fqdn in self.executor:
            self.executor.look(fqdn)
            return
        view = context.world.nodes.get(fqdn)
        if view is None or fqdn in self._inline:
            return
        if not view.ready and view.claim is None:  # most nodes with a change, where others work
            self._stealing.forget(fqdn)
            return
        if context.resting or not context.session.trusted:
            return
        if view.claim is not None:
            self._stealing.forget(fqdn)  # ranks count anew from when it is free
            self._give_back(view)
            return
        now = time.monotonic()
        if not self._stealing.our_turn(view, now):
            return
        candidates = self._candidates(view)
        if not candidates:
            self._stealing.forget(fqdn)
            return
        inline = [vertex for vertex in candidates if self._slots.instant(vertex)]
        vertex = inline[0] if len(inline) == len(candidates) else self._first(candidates)
        if self._well(fqdn) and self._stealing.may_take(vertex, now):
            self._claim(vertex, inline)

    def void(self) -> None:
        """The session is over: nothing is ours any more."""
        self.executor.void()
        self._inline.clear()
        self._stealing.void()

    def next(self, view: NodeView, moved: dict[Vertex, NodeRole]) -> Vertex | None:
        """The noderole to run next, with the records ``moved`` written."""
        candidates = self._candidates(view, moved)
        return self._first(candidates) if candidates else None

    def _candidates(self, view: NodeView, moved: dict[Vertex, NodeRole] | None = None) -> list[Vertex]:
        """The noderoles of a node that may start now; timers are set for those that may later."""
        context, now = self._context, self._context.session.now()
        planned: Mapping[Vertex, NodeRole] = moved or {}
        candidates: list[Vertex] = []
        for vertex in claimables(view, planned):
            record = planned.get(vertex, vertex.record)
            if record.state is State.TRANSITION and moved is None and vertex.lacking and not record.cancel_reason:
                self._let_go(vertex)
            elif runnable(context.world, vertex, now, context.jigs, moved):
                calls = record.check is None  # a check calls no hook
                if (not calls or self._has_code(vertex)) and self._can_open(vertex):
                    candidates.append(vertex)
            elif until := maintenance.ends(context.world, vertex, now):
                context.timers.at(time.monotonic() + until - now, Timer(TimerKind.CONSIDER, view.name))
            elif left := backoff_left(record, now):
                context.timers.at(time.monotonic() + left, Timer(TimerKind.CONSIDER, view.name))
            elif record.state is State.TODO and unsettled_child(vertex, planned) is not None:
                context.timers.at(time.monotonic() + AGAIN_SECONDS, Timer(TimerKind.CONSIDER, view.name))
        return candidates

    def _first(self, candidates: Sequence[Vertex]) -> Vertex:
        """The one of the highest rank, then no check, then the least deep in the graph, then by name."""
        if len(candidates) == 1:
            return candidates[0]
        highest = max(vertex.record.rank for vertex in candidates)
        first = [vertex for vertex in candidates if vertex.record.rank == highest]
        if len(first) == 1:
            return first[0]
        depth = self._context.world.depth
        return min(first, key=lambda each: (each.record.check is not None, depth(each), each.name))

    def _well(self, fqdn: str) -> bool:
        """Whether this host is fit to work on the node, and its claims are not refused; else it looks again later."""
        now, record = time.monotonic(), self._context.world.nodes[fqdn].record
        if self._judging.standing.trouble and not (record and record.virtual):
            self._stealing.forget(fqdn)
            return False  # everything is looked at when that is over
        if record and record.suspicion and record.suspicion.by == self._context.identity:
            self._stealing.forget(fqdn)
            return False  # a probe that reaches it takes the suspicion back, and with it the node is looked at
        until = self._faults.until(fqdn, now) or self._refusals.until(fqdn, now)
        if until is not None:
            self._stealing.forget(fqdn)
            self._context.timers.at(until, Timer(TimerKind.CONSIDER, fqdn))
        return until is None

    def _claim(self, vertex: Vertex, inline: Sequence[Vertex]) -> None:
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
        self._stealing.forget(fqdn)
        if vertex in inline and self._complete_now(vertex, inline):
            return
        try:
            self.executor.begin(vertex)
        except (Conflict, NotFound) as incomplete:
            self.refused(vertex, incomplete)

    # -- inline runs --

    def _complete_now(self, vertex: Vertex, inline: Sequence[Vertex]) -> bool:
        """Send the inline noderoles of the node in one transaction; whether there is any that can be completed."""
        context = self._context
        by, now = self._slots.inline_runner(), context.session.now()
        batch = complete_inline(vertex.node, by, now, inline=inline)
        if batch is None:
            return False
        self._inline[batch.node] = batch
        self._stealing.sent(batch.node)
        sent = time.monotonic()
        context.send(batch.changes, partial(self._inline_written, vertex, batch, sent), f"claim of {vertex.name}")
        return True

    def complete_inline(self, view: NodeView, ended: EndedRun) -> InlineBatch | None:
        """One transaction that completes the inline noderoles of a node behind ``ended``; None if there is none."""
        return complete_inline(view, self._slots.inline_runner(), self._context.session.now(), ended)

    def _inline_written(self, vertex: Vertex, batch: InlineBatch, sent: float, refused: OcbError | None) -> None:
        if self._inline.get(batch.node) is not batch:
            return
        del self._inline[batch.node]
        now = time.monotonic()
        self._stealing.answered(batch.node, now - sent, now)
        if refused is not None:
            self.refused(vertex, refused)
        else:
            self._refusals.well(batch.node)
            self.inline_completed(batch)
            self.consider(batch.node)
        self.retry_waiting()

    def inline_completed(self, batch: InlineBatch) -> None:
        """A transaction that completed inline noderoles was written."""
        for event in (Event.CLAIM, Event.SUCCEED):
            COUNT[event].inc(len(batch.done))
        for jig, count in Counter(grant.jig or "" for grant in batch.done).items():
            metrics.RUNS.labels(jig, "succeeded").inc(count)
        for grant in batch.done:
            self._tidying.ended(grant)

    def claimed(self, fqdn: str) -> None:
        """A claim of the node was written."""
        self._refusals.well(fqdn)

    def ended(self, vertex: Vertex) -> None:
        """Note that the end of a run of the noderole is written."""
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
        """Look again, once each, at nodes that waited for others, if the awaited thing is there."""
        while self._waiting_for_capacity and len(self) < MOST_IN_FLIGHT:
            self.consider(self._waiting_for_capacity.pop())
        while self._waiting_for_slot and len(self) < MOST_IN_FLIGHT and self._slots.free and not self._wary:
            self.consider(self._waiting_for_slot.pop())
        while self._checks_waiting and len(self) < MOST_IN_FLIGHT and self._slots.spare and not self._wary:
            self.consider(self._checks_waiting.pop())
        while len(self) < MOST_IN_FLIGHT and (fqdn := self._stealing.freed(time.monotonic())) is not None:
            self.consider(fqdn)

    def _give_back(self, view: NodeView) -> None:
        """Delete a claim of ours without a run. The answer to its transaction was lost, or the session of the claim, which may
        live on although it was reported as over.
        """
        context = self._context
        if view.claim and view.claim.annealer == context.identity:
            context.send(claim.giving_back(view), lambda _: None, f"giving back {view.name}")

    def _let_go(self, vertex: Vertex) -> None:
        """It has no run, and a parent is not satisfied any more: it must wait again."""
        context = self._context
        hidden = vertex.unreadable or paths.claim(vertex.node.name) in context.world.unreadable
        if vertex.node.claim is None and not hidden and context.ranking.of(vertex.node.name) == 0:
            now = context.session.now()
            moved = apply({vertex: Event.LOSE}, now, by=context.identity)
            account = claim.accounted(vertex, now, "abandoned", "a parent is not well any more")
            changes = claim.settling(moved, (vertex,), list(account))
            context.send(changes, lambda _: None, f"letting go {vertex.name}")
