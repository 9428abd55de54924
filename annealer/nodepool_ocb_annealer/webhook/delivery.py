"""One attempt to deliver, on a thread that may wait: the lock, the journal, the receiver, the cursor.

The holder of the lock sends. Two annealers may send the same entry: a process that was stopped may continue its
request. The cursor's version keeps it from going back, and a receiver recognizes an entry by its number.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.config import WebhookSettings
from nodepool_ocb.errors import Denied, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Webhook, WebhookFailure
from nodepool_ocb.model.records import LockOwner, Set
from nodepool_ocb.secrecy import private
from nodepool_ocb.secrecy.errors import Sealed
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Lock, Locks
from nodepool_ocb.telemetry import redaction
from nodepool_ocb_annealer.webhook import batches, receiver
from nodepool_ocb_annealer.webhook.batches import EntryBatch

LONG_SECONDS: Final = 60.0  # after which a failure is noted for all to see


class DeliveryInputs(msgspec.Struct, frozen=True):
    """The inputs of an attempt."""

    settings: WebhookSettings
    cluster: str  # its id
    owner: LockOwner  # our own identity
    failing_since: float | None  # since when our attempts fail, by ZooKeeper's clock


class Delivered(msgspec.Struct, frozen=True):
    """The receiver took a batch, and the cursor says so; None where there was nothing to send. ``left``: entries after it."""

    batch: EntryBatch | None
    left: int


class DeliveryFailed(msgspec.Struct, frozen=True):
    """Nothing was taken, as far as we know."""

    why: str
    left: int = 0


def held(session: Session, locks: Locks, lock: Lock | None, owner: LockOwner) -> Lock | None:
    """The lock, ours already or taken now; None where another has it. Raises Unavailable or Denied."""
    if lock is not None:
        if lock.held(session) and session.get(lock.contender) is not None:
            return lock
        locks.leave(lock)
    if session.get(paths.WEBHOOK) is None:
        session.ensure(paths.WEBHOOK)  # a cluster of before
    return locks.take(paths.WEBHOOK_LOCK, owner)


def attempt(session: Session, order: DeliveryInputs) -> Delivered | DeliveryFailed:
    """Send the first unsent entries. Raises Invalid if the cursor cannot be read, Stale
    if another annealer moved it, and Unavailable."""
    try:
        known, version = journal.cursor(session)
    except Invalid as unreadable:
        raise Invalid(
            f"the number of the last sent entry is not known: {unreadable}; to go on with new entries: nodepool-ocb record delete"
            f" {paths.WEBHOOK}"
        ) from unreadable
    if known is None or known.pool_delivered is None:
        return _begun(session, known, version)
    fresh = [number for number in journal.numbers(session) if number > known.delivered]
    of_pool = [number for number in journal.numbers(session, pool=True) if number > known.pool_delivered]
    if not fresh and not of_pool:
        return Delivered(None, 0)
    pool = not fresh  # a request has entries of one folder
    asked = (fresh or of_pool)[: batches.MOST_ENTRIES]
    before = known.pool_delivered if pool else known.delivered
    found = ((each.number, each.entry, each.problem) for each in journal.read(session, asked, pool))
    batch = batches.batch(before, asked, found, pool)
    why = _posted(order, batch)
    left = len(fresh) + len(of_pool)
    if why is None:
        now = session.now()
        if pool:
            taken = replace(known, at=now, failing=None, pool_delivered=batch.last)
        else:
            taken = replace(known, at=now, failing=None, delivered=batch.last)
        session.commit([Set(paths.WEBHOOK, taken, version)])
        return Delivered(batch, left - sum(1 for number in (fresh or of_pool) if number <= batch.last))
    _note(session, order, known, version, why)
    return DeliveryFailed(why, left)


def _begun(session: Session, known: Webhook | None, version: int) -> Delivered:
    """Note that the entries of now are old: those of both folders, or, after an annealer of before, those of launchers."""
    numbers, of_pool = journal.numbers(session), journal.numbers(session, pool=True)
    now, last = session.now(), of_pool[-1] if of_pool else -1
    begun = Webhook(delivered=numbers[-1] if numbers else -1, at=now) if known is None else known
    session.commit([Set(paths.WEBHOOK, replace(begun, pool_delivered=last), version)])
    return Delivered(None, 0 if known is None else sum(1 for number in numbers if number > known.delivered))


def _posted(order: DeliveryInputs, batch: EntryBatch) -> str | None:
    settings = order.settings
    try:
        key = private.webhook_key(settings)
    except Sealed as sealed:
        return f"is sent nothing: {sealed}"
    redaction.remember({*receiver.secrets(settings.url), *([key.decode()] if key is not None else ())})
    body = batches.body(order.cluster, batch)
    return receiver.post(settings.url, body, batches.headers(body, key, receiver.authorization(settings.url)))


def _note(session: Session, order: DeliveryInputs, known: Webhook, version: int, why: str) -> None:
    """Have all see that it fails, once it has for long."""
    now, since = session.now(), order.failing_since
    if known.failing is not None:
        since = known.failing.since
    elif since is None or now - since < LONG_SECONDS:
        return
    failing = WebhookFailure(since=since, at=now, host=order.owner.host, reason=why)
    session.commit([Set(paths.WEBHOOK, replace(known, failing=failing), version)])


def denied(refused: Denied) -> str:
    """The next action."""
    return f"is sent nothing: {refused}; people give annealers their rights: nodepool-ocb acl init"
