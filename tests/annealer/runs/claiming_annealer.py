"""An annealer with a claim, without ZooKeeper and threads: a test gives the answers to its transactions and orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodepool_ocb.engine.run import RunEvent
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import OcbError
from nodepool_ocb.jigs.jig import Outcome
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Daemon, NodeRole, Set
from nodepool_ocb_annealer.runs.attempts import Attempt, SlotAnswer
from nodepool_ocb_annealer.timer_kinds import Timer
from tests.annealer.test_feeding import Context, among

NOW = 1000.0  # of the clock that stands still where a test has stopped it


class Stage:
    """An annealer that has sent a claim of a@n, beside another, b. Its slot is given orders, and nothing runs."""

    def __init__(self, made: World | None = None) -> None:
        self.world = made or among("a@n")
        self.world.put(Stored(Daemon(host="h", pid=1, version="0", started=0.0), 0), "annealer", "b")
        self.context = Context(self.world, instant=False)
        self.executor = self.context.claims.executor
        self.orders: list[tuple[str, tuple[Any, ...]]] = []
        self.dones: list[Callable[[SlotAnswer], None]] = []
        self.changes: list[list[Change]] = []
        self.tidied: list[tuple[str, bool]] = []
        slots: Any = self.context.slots
        slots.start = lambda _, done, after: self._order("start", done, after)
        slots.end = lambda _, reason, done, after: self._order("end", done, reason, after)
        send = self.context.send

        def keep(changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None:
            self.changes.append(changes)
            send(changes, then, what)

        self.context.send = keep  # type: ignore[method-assign]
        self.context.tidying.ended = lambda grant, logs=False: self.tidied.append((grant.vertex.name, logs))
        self.context.claims.consider("n")
        self.attempt: Attempt = self.executor._attempts["n"]

    def _order(self, word: str, done: Callable[[SlotAnswer], None], *given: Any) -> None:
        self.orders.append((word, given))
        self.dones.append(done)

    @property
    def asked(self) -> list[str]:
        return self.context.asked

    def claimed(self) -> Stage:
        """The claim is written."""
        self.write(self.attempt.grant.record)
        self.world.put_fence("n", self.attempt.grant.fence)
        self.answer(None)
        return self

    def write(self, record: NodeRole) -> None:
        vertex = self.attempt.grant.vertex
        self.world.put_noderole("n", vertex.role, record, vertex.version + 1)

    def answer(self, refused: OcbError | None) -> str:
        """To what was sent last; gives what that was."""
        what, then = self.context.sent.pop()
        then(refused)
        return what

    def end(self, event: RunEvent, outcome: Outcome | None, **fields: Any) -> None:
        """The slot answers to the newest order."""
        self.dones.pop()(SlotAnswer(event, outcome, 1.0, **fields))

    def cancel(self, reason: str = "time is up") -> None:
        self.write(self.attempt.grant.record.amended(cancel_reason=reason))
        self.executor.look("n")

    def written(self, path: str = paths.noderole("a", "n")) -> Any:
        """The record that the newest transaction writes there."""
        (change,) = (each for each in self.changes[-1] if each.path == path)
        assert isinstance(change, Set)
        return change.data

    def waits(self) -> dict[Timer, float]:
        now = NOW
        found = {key: when - now for when, _, key in sorted(self.context.timers._heap, reverse=True)}
        list(self.context.timers.due(float("inf")))
        return found

    def left_alone(self) -> float | None:
        """For how many seconds this host leaves the node to others."""
        now = NOW
        until = self.context.claims._faults.until("n", now)
        return None if until is None else until - now
