"""One run, in a slot's thread: attributes in, a jig, attributes out.

What goes wrong here is a fault of this host, and never the run's failure: the outcome is Unknown, and the machine is asked
again, by this annealer or by another. Once an outcome is there, nothing is asked of ZooKeeper, of the disk or of the
machine before it is handed over.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.engine import claim
from nodepool_ocb.errors import Denied, Invalid, Spoiled, Stale, Unavailable
from nodepool_ocb.jigs.jig import (
    Detached,
    Failed,
    Jig,
    Lost,
    Order,
    Outcome,
    Succeeded,
    Unknown,
    Unreachable,
    bounded,
)
from nodepool_ocb.jigs.raised import failed
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.hooks import on_transition
from nodepool_ocb_annealer.runs import attributes
from nodepool_ocb_annealer.runs.attempts import Attempt, Finished

log = logging.getLogger(__name__)

REACH_AGAIN_SECONDS: Final = 1.0
TRUST_SECONDS: Final = 0.1
ASKED: Final = 2  # times, before a machine that does not answer is dead, and a node goes back that this host fails at


class Running:
    """Runs what is held; any number of threads may call ``run``."""

    def __init__(self, session: Session, settings: AnnealerSettings, jigs: dict[str, Jig]) -> None:
        self._session, self._settings, self._jigs = session, settings, jigs

    def run(self, attempt: Attempt, sources: attributes.Sources, after_seconds: float) -> Finished | None:
        """What it came to; None where the node is not ours any more. Raises nothing."""
        finished: Finished | None = None
        try:
            (attempt.gone if attempt.cancel_reason else attempt.stop).wait(after_seconds)
            self._await_trust(attempt)
            if not attempt.stop.is_set():
                finished = self._work(attempt, sources)
            if finished is None and attempt.cancel_reason and not attempt.gone.is_set():
                finished = self._cancel(attempt, attempt.cancel_reason)
        except BaseException as error:  # a jig may raise anything, and a slot that is not given back is lost
            finished = _fault(attempt, error)
        if finished is None:
            return None
        return replace(finished, outcome=bounded(finished.outcome), ended=finished.ended or self._session.now())

    def _await_trust(self, attempt: Attempt) -> None:
        """Nothing starts while the claim may be gone; a new session has set ``stop``."""
        while not (self._session.trusted and self._session.id == attempt.session):
            if attempt.gone.wait(TRUST_SECONDS):
                return

    def _work(self, attempt: Attempt, sources: attributes.Sources) -> Finished | None:
        jig = self._jigs[attempt.jig]
        if attempt.changed:
            return self._cancel(attempt, None)
        if not jig.attaches and attempt.destructive and (attempt.ordered or attempt.grant.previous_epoch is not None):
            epoch = attempt.grant.epoch if attempt.ordered else attempt.grant.previous_epoch
            return Finished(Lost(f"it was started under epoch {epoch}, and nobody saw it end"))
        try:
            if refusal := self._on_transition(attempt):
                return Finished(refusal)
            blobs = attributes.read(self._session, sources)
            sent = attributes.visible(sources, blobs)
        except (Stale, Unavailable, Denied) as gone:
            log.warning("%s: %s", attempt.name, gone)
            return Finished(Unknown(f"ZooKeeper: {gone}"), again_after=REACH_AGAIN_SECONDS)
        except Spoiled as wrong:  # nobody's failure: it waits until they are mended
            return Finished(Unknown(str(wrong)), spoiled=wrong.path)
        except Invalid as wrong:  # in what the jig would be given, not in this host
            return Finished(Failed(str(wrong)))
        return self._ordered(attempt, jig, blobs, sent)

    def _ordered(self, attempt: Attempt, jig: Jig, blobs: attributes.Blobs, sent: dict[str, Any]) -> Finished | None:
        order = self._order(attempt, sent)
        attempt.ordered = True
        started = time.monotonic()
        outcome = jig.run(order, attempt.stop)
        ended = self._session.now()
        if isinstance(outcome, Detached) and attempt.stop.is_set():
            return None  # the node is not ours any more
        finished = _finished(attempt, outcome, ended, blobs, sent)
        metrics.RUN_SECONDS.labels(attempt.jig).observe(time.monotonic() - started)
        return finished

    def _on_transition(self, attempt: Attempt) -> Failed | None:
        """The failure of a run whose role's hook raised."""
        if "on_transition" not in attempt.role.hooks:
            return None
        error = on_transition(self._session, attempt.grant, attempt.role.barclamp)
        if error is None:
            return None
        return failed(error, self._log_file(attempt.grant), self._settings.log_run_bytes, "on_transition: ")

    def _cancel(self, attempt: Attempt, reason: str | None) -> Finished:
        """Have what runs on the machine ended; nothing of ours gives it orders meanwhile.

        ``reason``: why, to be told as its failure; None where its role has another jig now, and it is to run anew.
        """
        answer = self._jigs[attempt.jig].cancel(self._order(attempt, {}))
        if isinstance(answer, Unreachable):
            return _unreachable(attempt, answer)
        if answer is not None:
            return Finished(answer)
        if reason is not None:
            return Finished(Failed(reason))
        return Finished(Lost(f"it was ended: its role has jig {attempt.role.jig} now, and had {attempt.jig}"))

    def _order(self, attempt: Attempt, sent: dict[str, Any]) -> Order:
        grant = attempt.grant
        record = grant.vertex.node.record
        assert record is not None, "a claim checks the node"
        return Order(
            node=grant.fqdn,
            record=record,
            role=grant.vertex.role,
            definition=attempt.role,
            generation=grant.record.generation,
            epoch=grant.epoch,
            previous_epoch=grant.previous_epoch,
            run=grant.run,
            attributes=sent,
            timeout_seconds=attempt.role.timeout_seconds,
            log=self._log_file(grant),
            log_bytes=self._settings.log_run_bytes,
        )

    def _log_file(self, grant: claim.Grant) -> Path | None:
        folder = self._settings.log_dir
        return Path(folder, grant.fqdn, f"{grant.vertex.role}-{grant.run}.log") if folder else None


def _finished(
    attempt: Attempt, outcome: Outcome, ended: float, blobs: attributes.Blobs, sent: dict[str, Any]
) -> Finished:
    """What a jig's answer comes to; nothing in here may lose it."""
    match outcome:
        case Unreachable():
            return _unreachable(attempt, outcome)
        case Unknown(reason, begun):
            return _unknown(attempt, reason, begun)
        case Detached(reason):  # nobody told it to let go
            return _unknown(attempt, reason, begun=True)
        case Succeeded(returned):
            try:
                return Finished(
                    outcome, ended, attributes.wall_changes(attempt.grant.vertex, blobs, sent, returned), sent=sent
                )
            except Exception as wrong:  # it is the answer that makes no sense
                said = f"what it gave back cannot be kept: {type(wrong).__name__}: {wrong}"
                return Finished(Failed(said, outcome.exit_code, outcome.tail, None, outcome.log), ended)
        case _:
            return Finished(outcome, ended)


def _unreachable(attempt: Attempt, outcome: Unreachable) -> Finished:
    attempt.unreached += 1
    attempt.begun = attempt.begun or outcome.begun
    return Finished(outcome, again_after=REACH_AGAIN_SECONDS if attempt.unreached < ASKED else None)


def _fault(attempt: Attempt, error: BaseException) -> Finished:
    log.warning("%s: this host failed at it", attempt.name, exc_info=error)
    return _unknown(attempt, f"{type(error).__name__}: {error}", begun=attempt.ordered)


def _unknown(attempt: Attempt, reason: str, begun: bool) -> Finished:
    attempt.faults += 1
    attempt.begun = attempt.begun or begun
    return Finished(Unknown(reason), again_after=REACH_AGAIN_SECONDS if attempt.faults < ASKED else None)
