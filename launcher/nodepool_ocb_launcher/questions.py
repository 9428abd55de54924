"""The questions of the driver metal: workers ask them, and the turn decides and writes them, with its view of /ocb.

A question is decided again if another writer was faster, and while its answer must wait for an annealer. Its worker waits for a
bounded time. A question that was given up is not decided any more; the next call asks it anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from nodepool_ocb.engine import structure
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import OcbError, Stale, Unavailable
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change
from nodepool_ocb.pool.metal.plans import MetalPlan
from nodepool_ocb.providers.machines import LaunchParty, MachineRefused
from nodepool_ocb.providers.metal import MetalQuestion
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import removal_as_judged
from nodepool_ocb.store.world.cache import Cache


class _Asked:
    """A question under way."""

    def __init__(self, question: MetalQuestion) -> None:
        self.decide = question
        self.ended = threading.Event()
        self.answer: Any = None
        self.error: Exception | None = None
        self.waits: str | None = None

    def end(self, answer: Any, error: Exception | None = None) -> None:
        self.answer, self.error = answer, error
        self.ended.set()


class FleetQuestions:
    """``ask`` is for any thread, all others for the turn."""

    def __init__(self, session: Session, wake: Callable[[], None]) -> None:
        self._session, self._wake = session, wake
        self._guard = threading.Lock()
        self._open: dict[_Asked, None] = {}

    @property
    def waiting(self) -> bool:
        """Whether a question is open."""
        return bool(self._open)

    def ask(self, question: MetalQuestion, seconds: float) -> Any:
        """The answer after all of its plan was written, or MachineRefused after this time."""
        asked = _Asked(question)
        with self._guard:
            self._open[asked] = None
        self._wake()
        asked.ended.wait(seconds)
        with self._guard:
            self._open.pop(asked, None)
            late = not asked.ended.is_set()
        if late and asked.waits is not None:
            return MachineRefused(asked.waits)
        if late:
            return MachineRefused(f"ZooKeeper did not answer within {seconds:g} s", LaunchParty.HOST)
        if asked.error is not None:
            raise asked.error
        return asked.answer

    def drop(self, reason: str) -> None:
        """End all questions: what was read before a new session is void, and a launcher that ends waits for no answer."""
        for asked in self._taken():
            asked.end(MachineRefused(reason, LaunchParty.HOST))

    def answer(self, cache: Cache) -> bool:
        """Decide and write; whether a question must be decided again soon. Raises Unavailable or Denied."""
        again = False
        for asked in self._taken():
            try:
                plan = asked.decide(cache.world, self._session.now())
                if plan.changes or plan.unbound:
                    self._write(cache.world, plan)
                    cache.refresh()  # the next question sees it
            except Stale:
                again = True
            except Unavailable:
                raise
            except OcbError as refused:
                asked.end(MachineRefused(str(refused)))
            except Exception as error:  # a defect of the driver; it is the caller's, and ends no turn
                asked.end(None, error)
            else:
                asked.waits = plan.waits
                if plan.waits is None:
                    asked.end(plan.answer)
        return again

    def _taken(self) -> list[_Asked]:
        with self._guard:
            return [each for each in self._open if not each.ended.is_set()]

    def _write(self, world: World, plan: MetalPlan) -> None:
        """One transaction. Noderoles with a long history go in several before it; then it is decided anew."""
        units: list[list[Change]] = []
        for name in plan.unbound:
            units.append(removal_as_judged(self._session, world, paths.noderole(*paths.split_noderole(name))))
        whole = structure.raised(world, [*(each for unit in units for each in unit), *plan.changes])
        if limits.fits(whole):
            self._session.commit(whole)
            return
        for part in structure.in_parts(world, units):
            self._session.commit(part)
        raise Stale("noderoles of a machine were taken away; the rest follows", paths.STRUCTURE)
