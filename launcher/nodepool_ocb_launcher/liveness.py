"""Checks before a hand-out: a machine that its provider lends must answer now. Machines that a driver makes are not asked.

The turn waits for an answer for a moment only, since an answer over a kept connection takes a millisecond. A later answer wakes
the turn, which decides again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from nodepool_ocb.pool.views import PoolNodeView
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.machines import LaunchParty, MachineRefused
from nodepool_ocb.threads import SpareThreads
from nodepool_ocb_launcher.context import LauncherContext

log = logging.getLogger(__name__)

QUICK_SECONDS: Final = 0.05  # that a turn waits for the nodes of one request
TURN_SECONDS: Final = 0.5  # that a turn waits for those of all requests
SAID_SECONDS: Final = 60.0  # between two warnings about one provider
VALID_SECONDS: Final = 5.0  # that an answer counts
AGAIN_SECONDS: Final = 1.0  # after a refusal that says nothing of the machine
OF_MACHINES: Final = frozenset({LaunchParty.MACHINE, LaunchParty.REQUEST})


class SlotCheck:
    """One question to one machine."""

    def __init__(
        self,
        calls: MachineCalls,
        node: PoolNodeView,
        wake: Callable[[], None],
        halt: threading.Event,
        warn: Callable[[PoolNodeView, str], None],
    ) -> None:
        self.ended = threading.Event()
        self.refused: MachineRefused | None = None
        self.at = time.monotonic()
        self._late = False
        self._calls, self._node, self._wake, self._halt, self._warn = calls, node, wake, halt, warn

    @property
    def old(self) -> bool:
        """Whether its answer counts no more."""
        return self.ended.is_set() and time.monotonic() - self.at > VALID_SECONDS

    def run(self) -> None:
        """Ask, on a thread of its own."""
        record = self._node.record
        answer = self._calls.check(record.external_id or "", record.host_keys or ())
        if answer is not None and answer.party not in OF_MACHINES:
            self._warn(self._node, answer.reason)
            self._halt.wait(AGAIN_SECONDS)
        self.refused, self.at = answer, time.monotonic()
        self.ended.set()
        if self._late:
            self._wake()

    def wake_later(self) -> None:
        """The turn waits no more: the answer wakes it."""
        self._late = True
        if self.ended.is_set():
            self._wake()  # it came just now


class SlotChecks:
    """The checks under way, and their answers for a while. Call it on the turn thread."""

    def __init__(self, context: LauncherContext, wake: Callable[[], None]) -> None:
        self._context, self._wake, self._threads = context, wake, SpareThreads()
        self._checks: dict[tuple[str, int], SlotCheck] = {}
        self._left = TURN_SECONDS  # that this turn may still wait
        self._said: dict[str, float] = {}  # by provider: when a warning was logged (monotonic)

    def begin_turn(self) -> None:
        """The turn may wait again. Old answers are forgotten."""
        self._left = TURN_SECONDS
        self._checks = {key: check for key, check in self._checks.items() if not check.old}

    def begin(self, nodes: Iterable[PoolNodeView]) -> None:
        """Ask the machines of these nodes side by side; ``refusals`` gives the answers."""
        for node in nodes:
            if (calls := self._lender(node)) is not None:
                self._check(calls, node)

    def refusals(self, nodes: Sequence[PoolNodeView]) -> dict[str, str] | None:
        """The nodes that must not be handed out, with the reason; None while an answer is missing."""
        asked = {node.id: self._check(calls, node) for node in nodes if (calls := self._lender(node)) is not None}
        if not self._answered(asked.values()):
            for check in asked.values():
                check.wake_later()
            return None
        for node in nodes:
            self._checks.pop((node.id, node.version), None)
        refused = {id: check.refused for id, check in asked.items() if check.refused is not None}
        if any(each.party not in OF_MACHINES for each in refused.values()):
            return None
        return {id: each.reason for id, each in refused.items()}

    def _answered(self, checks: Iterable[SlotCheck]) -> bool:
        """Whether all have answered, after a short wait."""
        began = time.monotonic()
        deadline = began + min(QUICK_SECONDS, self._left)
        every = all(check.ended.wait(max(0.0, deadline - time.monotonic())) for check in checks)
        self._left = max(0.0, self._left - (time.monotonic() - began))
        return every

    def _warn(self, node: PoolNodeView, reason: str) -> None:
        provider, now = node.record.provider or "", time.monotonic()
        if now - self._said.get(provider, -SAID_SECONDS) >= SAID_SECONDS:
            self._said[provider] = now
            log.warning("node %s is not handed out now: %s", node.id, reason)

    def _lender(self, node: PoolNodeView) -> MachineCalls | None:
        calls = self._context.providers.get(node.record.provider or "")
        return calls if calls is not None and calls.lends else None

    def _check(self, calls: MachineCalls, node: PoolNodeView) -> SlotCheck:
        key = (node.id, node.version)
        if key not in self._checks:
            check = self._checks[key] = SlotCheck(calls, node, self._wake, self._context.halt, self._warn)
            self._threads.begin(f"check {node.id}", check.run)
        return self._checks[key]
