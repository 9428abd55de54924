"""The annealer that posts entries of the journal, and its times: of all annealers with a webhook the holder of the lock.

An annealer without one takes no part: ranks only decide the order of attempts. New entries and a free lock wake us
by a watch, so an idle cluster is neither read nor written. Requests to ZooKeeper and the receiver run on a thread of their
own. After repeated failures an annealer releases the lock while it waits: another host may reach the receiver.
"""

from __future__ import annotations

import logging
import random
import time
from contextlib import suppress
from functools import partial
from typing import Final

from nodepool_ocb.config import WebhookSettings, receiver
from nodepool_ocb.daemon.workers import WorkerPool
from nodepool_ocb.errors import Denied, OcbError, Stale, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.store.locks import Lock, Locks
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from nodepool_ocb_annealer.webhook import batches, delivery
from nodepool_ocb_annealer.webhook.delivery import Delivered, DeliveryFailed, DeliveryInputs

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 0.5  # after a request that ZooKeeper did not answer or refused
PATIENT: Final = 5  # failures in a row, before another host may try

Ended = Delivered | DeliveryFailed | OcbError | None  # None: another has the lock


class Posting:
    """The posting of entries to the webhook. Call it on the turn thread, except from the watch and the worker."""

    def __init__(self, context: AnnealerContext) -> None:
        self._context = context
        self._settings: WebhookSettings | None = context.settings.webhook
        self._locks = Locks(context.session)
        self._lock: Lock | None = None  # as it was left by the newest attempt; the next one looks whether it stands
        self._workers = WorkerPool("webhook", 1, lambda: context.post(self._ended))
        self._result: tuple[Lock | None, Ended] = (None, None)  # of the attempt that has ended
        self._order: DeliveryInputs | None = None  # the newest
        self._under_way = False
        self._again = False  # something came meanwhile
        self._woken = False  # a look was posted, and did not come yet
        self._watching = False
        self._connection = 0  # the session's count of connections, and its newest transaction, when we looked
        self._zxid = -1
        self._our_turn: float | None = None  # monotonic: before it others try the lock
        self._not_before = 0.0  # monotonic
        self._failures = 0
        self._failing_since: float | None = None  # by ZooKeeper's clock
        self._why = ""  # it failed the last time

    # -- waking --

    def look(self) -> None:
        """Watch, and look for changes during a reconnect. Raises Unavailable."""
        session = self._context.session
        if self._settings is None or self._connection == session.connections:
            return
        connection = session.connections
        if not self._watching:
            session.watch(paths.JOURNAL, self._event)
            self._watching = True
        self._connection = connection
        self._schedule(0.0)

    def sweep(self) -> None:
        """As ``look``; a wake-up that was lost is made good here, and where nothing was written there was none.

        A lock that could not be released goes, too.
        """
        self._locks.sweep()
        self.look()
        if self._settings is not None and self._zxid != self._context.session.last_zxid:
            self._zxid = self._context.session.last_zxid
            self._schedule(0.0)

    def _event(self, kind: str, path: str) -> None:
        """On the connection's thread: an entry, for the sender; or a released lock."""
        entry = kind == "created" and path.startswith((f"{paths.JOURNAL_ENTRIES}/", f"{paths.JOURNAL_POOL}/"))
        mine = self._under_way or self._lock is not None  # in this order: the lock is known before the work has ended
        if self._woken or not ((entry and mine) or (kind == "deleted" and path.startswith(f"{paths.WEBHOOK_LOCK}/"))):
            return
        self._woken = True
        self._context.post(self.wake)

    def wake(self) -> None:
        """Look soon."""
        self._woken = False  # before anything is read: a change from now on wakes again
        self._schedule(0.0)

    def _schedule(self, when: float) -> None:
        self._context.timers.at(max(when, time.monotonic()), Timer(TimerKind.WEBHOOK))

    # -- changes of its course --

    def configure(self) -> None:
        """The settings may be others; failed attempts begin again."""
        self._settings = self._context.settings.webhook
        self._not_before, self._failures, self._failing_since, self._why = 0.0, 0, None, ""
        self._connection = 0  # the next turn looks
        if self._settings is None:
            self.release()

    def release(self) -> None:
        """Let another annealer have it, at once or after the present attempt."""
        if self._under_way:
            return
        lock, self._lock = self._lock, None
        self._our_turn = None
        metrics.WEBHOOK_LAG.set(0)
        with suppress(Unavailable):  # it goes with the session, or with the next lock that is taken
            if lock is not None:
                self._locks.release(lock)
            self._locks.sweep()

    # -- a timer --

    def due(self) -> None:
        """Begin an attempt, if there is a webhook and it is our turn."""
        context, settings, now = self._context, self._settings, time.monotonic()
        if settings is None or context.resting:
            return
        if self._under_way:
            self._again = True
        elif not context.session.trusted:
            self._schedule(now + AGAIN_SECONDS)
        elif now < self._not_before:
            self._schedule(self._not_before)
        elif self._lock is None and now < (turn := self._turn(now)):
            self._schedule(turn)
        else:
            self._begin(settings)

    def _turn(self, now: float) -> float:
        """When we may try the lock: each rank a little after the one before it."""
        if self._our_turn is None:
            delay = self._context.settings.steal_delay_seconds
            self._our_turn = now + self._context.ranking.of("webhook") * delay
        return self._our_turn

    def _begin(self, settings: WebhookSettings) -> None:
        context = self._context
        record = context.registration.record
        owner = LockOwner(
            daemon=context.identity,
            host=record.host,
            pid=record.pid,
            purpose=f"sends the journal to {receiver(settings.url)}",
            since=context.session.now(),
        )
        self._order = DeliveryInputs(settings, context.cluster, owner, self._failing_since)
        self._our_turn, self._again, self._under_way = None, False, True
        if not self._workers.start("webhook", partial(self._work, self._order, self._lock)):
            self._under_way = False
            self._schedule(time.monotonic() + AGAIN_SECONDS)

    def _work(self, order: DeliveryInputs, lock: Lock | None) -> None:
        """On its thread."""
        ended: Ended = DeliveryFailed("is sent nothing: an error of this program, which is in the log")
        try:
            lock = delivery.held(self._context.session, self._locks, lock, order.owner)
            ended = delivery.attempt(self._context.session, order) if lock is not None else None
        except Denied as refused:
            ended = DeliveryFailed(delivery.denied(refused))
        except OcbError as refused:
            ended = refused
        finally:  # a lock that was taken and forgotten would keep everybody out, us too
            self._result = lock, ended

    # -- the outcome --

    def _ended(self) -> None:
        again, order = self._again, self._order
        self._lock, ended = self._result
        self._under_way = False
        changed = order is None or order.settings != self._settings
        if order is not None and not changed:
            again = self._take(order, ended) or again
        if self._settings is None or self._context.resting:
            self.release()
        elif again or changed:
            self._schedule(0.0)

    def _take(self, order: DeliveryInputs, ended: Ended) -> bool:
        """Whether there is more to do at once."""
        match ended:
            case None:
                return False
            case Delivered():
                return self._sent(order, ended)
            case DeliveryFailed():
                self._failed(order, ended)
            case Stale() | Unavailable():
                log.info("webhook: %s", ended)
                self._schedule(time.monotonic() + AGAIN_SECONDS)
            case _:
                self._failed(order, DeliveryFailed(f"is sent nothing: {ended}"))
                self.release()  # a person mends it by record delete, which refuses while an annealer holds the lock
        return False

    def _sent(self, order: DeliveryInputs, sent: Delivered) -> bool:
        metrics.WEBHOOK_LAG.set(sent.left)
        if sent.batch is None:
            return sent.left > 0
        if self._why:
            log.info("webhook: %s takes entries again", receiver(order.settings.url))
        self._failures, self._failing_since, self._why = 0, None, ""
        metrics.WEBHOOK_ENTRIES.inc(len(sent.batch.entries))
        metrics.WEBHOOK_MISSED.inc(sent.batch.missed)
        for problem in sent.batch.problems:
            log.warning("webhook: this entry cannot be read: %s", problem)
        if sent.batch.missed:
            log.warning("webhook: %s", batches.missed_words(sent.batch))
        return sent.left > 0

    def _failed(self, order: DeliveryInputs, failed: DeliveryFailed) -> None:
        self._failures += 1
        metrics.WEBHOOK_FAILURES.inc()
        metrics.WEBHOOK_LAG.set(failed.left)
        if self._failing_since is None:
            self._failing_since = self._context.session.now()
        if failed.why != self._why:
            log.warning("webhook: %s %s; it is tried again", receiver(order.settings.url), failed.why)
            self._why = failed.why
        self._not_before = time.monotonic() + batches.wait_seconds(self._failures, random.random())
        self._schedule(self._not_before)
        if self._failures >= PATIENT:
            self.release()
