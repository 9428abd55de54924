"""Slots: the number of runs that an annealer has on machines at once, and their threads. ``running`` has the work in one.

A jig that acts on a machine takes a slot and runs in a thread of its own; an instant one (noop) needs none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from secrets import token_hex
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.daemon.workers import submitted
from nodepool_ocb.engine import inputs, installing, unreadable
from nodepool_ocb.engine.drift import CHECK
from nodepool_ocb.engine.inline_runs import InlineRunner, begins_inline, run_name, runs_inline
from nodepool_ocb.engine.run import RunEvent
from nodepool_ocb.engine.world import NodeView, Vertex, ordered_with
from nodepool_ocb.jigs.jig import Failed, Succeeded, Unknown
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.drift import PendingCheck
from nodepool_ocb.model.records import Role, State
from nodepool_ocb.store.client.reading import BATCH
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.runs import attributes
from nodepool_ocb_annealer.runs.attempts import Attempt, SlotAnswer
from nodepool_ocb_annealer.runs.running import JigRunner

log = logging.getLogger(__name__)

INSTANT: Final = Succeeded(attributes={}, exit_code=0, tail="", log=None)

Done = Callable[[SlotAnswer], None]


class SlotPool:
    """The slots of one annealer. Call everything from the turn thread; its answers come back to it."""

    def __init__(self, context: AnnealerContext) -> None:
        self._context = context
        self._slots = context.settings.slots
        self._threads = ThreadPoolExecutor(max_workers=self._slots, thread_name_prefix="slot")
        self._runner = JigRunner(context.session, context.settings, context.jigs, context.secrets)
        self._catalogue: inputs.Catalogue | None = None
        self._busy = 0
        self._instant_jigs = frozenset(name for name, jig in context.jigs.items() if jig.instant)
        self._token, self._next_run = token_hex(3), 16
        metrics.SLOTS.set(self._slots)

    # -- slots --

    @property
    def free(self) -> bool:
        return self._busy < self._slots

    @property
    def spare(self) -> bool:
        """Whether a check may have a slot: one in four is kept for other runs."""
        return self._busy < self._slots - self._slots // 4

    def room(self, vertex: Vertex, instead_of: Attempt | None = None) -> bool:
        """Whether the noderole could start now, in the slot of ``instead_of`` if that has one."""
        role = self._context.world.role_of(vertex)
        under_way = ordered_with(vertex) if vertex.record.state is State.TRANSITION else None
        instant = vertex.record.check is None and self._instant(role, under_way or role.jig)
        instant = instant or installing.of_vertex(vertex) is not None  # it holds no slot
        return instant or self.free or (instead_of is not None and instead_of.slot)

    def instant(self, vertex: Vertex) -> bool:
        """Whether it is to begin, and there is nothing to run for it on any machine."""
        return begins_inline(self._context.world, vertex, self._instant_jigs)

    def occupy(self, attempt: Attempt) -> None:
        if not (self._nothing_to_run(attempt) or attempt.state.installing):
            attempt.slot = True
            self._count(+1)

    def vacate(self, attempt: Attempt) -> None:
        if attempt.slot:
            attempt.slot = False
            self._count(-1)

    def pass_on(self, attempt: Attempt, following: Attempt) -> None:
        """The next noderole of the node takes over the slot, where it needs one."""
        self.vacate(attempt)
        self.occupy(following)

    def configure(self) -> None:
        """Take over new settings; a run that has begun keeps its slot."""
        context = self._context
        if context.settings.slots != self._slots:
            self._slots = context.settings.slots
            self._threads.shutdown(wait=False)
            self._threads = ThreadPoolExecutor(max_workers=self._slots, thread_name_prefix="slot")
        self._runner = JigRunner(context.session, context.settings, context.jigs, context.secrets)
        metrics.SLOTS.set(self._slots)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _count(self, change: int) -> None:
        self._busy += change
        metrics.SLOTS_BUSY.set(self._busy)

    def _instant(self, role: Role, jig: str) -> bool:
        """Whether there is nothing to run; ``jig``: that the run is ordered with, or was."""
        return runs_inline(role, jig, self._instant_jigs)

    def _nothing_to_run(self, attempt: Attempt) -> bool:
        return not attempt.checking and self._instant(attempt.role, attempt.jig)

    # -- running --

    def name_run(self, view: NodeView, check: PendingCheck | None = None) -> str:
        """A name for a coming run on the node that no other run has; it ends with CHECK for a check."""
        self._next_run += 1
        return f"{run_name(view, self._token, self._next_run - 1)}{CHECK if check else ''}"

    def inline_runner(self) -> InlineRunner:
        """This annealer, for one batch. Its run numbers suffice: each run of a batch is several changes."""
        context, first = self._context, self._next_run
        self._next_run += limits.TRANSACTION_CHANGES
        return InlineRunner(context.identity, context.jigs.keys(), self._instant_jigs, self._token, first)

    def read_ahead(self, attempt: Attempt, connections: int, ended: Vertex | None = None) -> None:
        """Ask for the attributes of a run whose claim was just sent. ``connections``: the session's count before that.

        ``ended``: the noderole with a run that the same transaction ends. A hook of the role may write attributes first: a
        role with ``on_transition`` is not read ahead.
        """
        if self._nothing_to_run(attempt) or attempt.state.installing or "on_transition" in attempt.role.hooks:
            return
        beside = unreadable.blobs(ended) if ended is not None else ()
        wanted = list(dict.fromkeys([*attributes.wanted(self._sources(attempt)), *beside]))
        if len(wanted) <= BATCH:
            attempt.ahead = attributes.ReadAhead(self._context.session, wanted, connections)

    def start(self, attempt: Attempt, done: Done, after_seconds: float = 0.0) -> None:
        """Give the jig its order: ``done`` is called with the answer, at once where there is nothing to run."""
        if self._nothing_to_run(attempt):
            nothing = attributes.Results(number=inputs.of_instant(attempt.jig), instant=True)
            done(SlotAnswer(RunEvent.ENDED, INSTANT, self._context.session.now(), nothing))
            return
        sources, runner = self._sources(attempt), self._runner
        self._answer(lambda: runner.run(attempt, sources, after_seconds), done)

    def _sources(self, attempt: Attempt) -> inputs.InputSources:
        world = self._context.world
        if self._catalogue is None or not self._catalogue.current:
            self._catalogue = inputs.Catalogue(world)
        return inputs.sources(world, attempt.grant.vertex, attempt.role, self._catalogue)

    def end(self, attempt: Attempt, reason: str | None, done: Done, after_seconds: float = 0.0) -> None:
        """End the run on the machine; as start(). ``reason``: None if its role has another jig now."""
        if self._nothing_to_run(attempt):
            done(SlotAnswer(RunEvent.ENDED, Failed(str(reason)), self._context.session.now()))
            return
        runner = self._runner
        self._answer(lambda: runner.end(attempt, reason, after_seconds), done)

    def _answer(self, work: Callable[[], SlotAnswer | None], done: Done) -> None:
        def answer() -> None:
            if (answered := work()) is not None:
                self._context.post(partial(done, answered))

        if not self._submit(answer):
            fault = Unknown("no thread could be started", begun=False)
            done(SlotAnswer(RunEvent.FAULT, fault, self._context.session.now()))

    def read_wall(self, attempt: Attempt, answer: SlotAnswer, done: Done) -> bool:
        """Another writer wrote the wall meanwhile, or the kept part of the input: the result of the run replaces that.

        False where no thread can be had: nothing is lost, try again later.
        """

        def work() -> None:
            results, sent = attributes.Results(), answer.sent
            try:
                if isinstance(answer.outcome, Succeeded) and sent is not None:
                    key = attempt.grant.vertex.role, attempt.fqdn
                    wanted = [paths.wall(*key), paths.given(*key)]
                    read = dict(zip(wanted, self._context.session.get_many(wanted), strict=True))
                    results = attributes.results(attempt.grant, read, sent, self._context.secrets, answer.outcome)
            except Exception as error:  # after any error the outcome stands
                log.warning("%s: %s", attempt.name, error)
                results = answer.results
            self._context.post(lambda: done(replace(answer, event=RunEvent.READ, results=results)))

        return self._submit(work)

    def _submit(self, work: Callable[[], None]) -> bool:
        """Whether a thread does it."""
        return submitted(self._threads, work)
