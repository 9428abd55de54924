"""One run, in a slot's thread: attributes in, a jig, attributes out; or its end.

An error here is a fault of this host, and never the run's failure: the outcome is Unknown, and the machine is asked
again, by this annealer or by another. After an outcome there is no request to ZooKeeper, the disk or the
machine before the outcome is handed over.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.engine import claim, inputs
from nodepool_ocb.engine.attributes import merge
from nodepool_ocb.engine.run import RunEvent
from nodepool_ocb.errors import Denied, Invalid, Spoiled, Stale, Unavailable, reason_of
from nodepool_ocb.http import logs
from nodepool_ocb.jigs.jig import (
    Boots,
    Checker,
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
from nodepool_ocb.jigs.output import kept
from nodepool_ocb.jigs.raised import failed
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.secrecy.errors import Sealed
from nodepool_ocb.secrecy.opening import Opened, Secrets
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.telemetry import metrics
from nodepool_ocb.telemetry.redaction import Mask
from nodepool_ocb_annealer.hooks.calls import on_transition
from nodepool_ocb_annealer.runs import attributes, foreign
from nodepool_ocb_annealer.runs.attempts import Attempt, SlotAnswer
from nodepool_ocb_annealer.runs.attributes import JigInputs
from nodepool_ocb_annealer.runs.forbidden import Forbidden

log = logging.getLogger(__name__)

TRUST_SECONDS: Final = 0.1
FORMER: Final = (
    "changed since its newest run, and secret: a check would print the former value, which is in use; commit it or refresh"
    " it, and check then"
)


class JigRunner:
    """Runs the held noderoles; any number of threads may call ``run`` and ``end``, which raise nothing."""

    def __init__(self, session: Session, settings: AnnealerSettings, jigs: dict[str, Jig], secrets: Secrets) -> None:
        self._session, self._settings, self._jigs, self._secrets = session, settings, jigs, secrets
        self._forbidden = Forbidden(session)

    def run(self, attempt: Attempt, sources: inputs.InputSources, after_seconds: float) -> SlotAnswer | None:
        """Give the jig its order, and wait for its answer; None where the node is not ours any more."""
        attempt.stop.wait(after_seconds)
        self._await_trust(attempt)
        if attempt.stop.is_set():
            return _left(attempt)
        progress = RunProgress()
        try:
            answer = self._work(attempt, sources, progress)
        except BaseException as error:  # a jig may raise anything, and a slot that is not given back is lost
            answer = _fault(attempt, error, begun=progress.ordered)
        return self._stored(replace(answer, ordered=progress.ordered), progress.mask) if answer is not None else None

    def end(self, attempt: Attempt, reason: str | None, after_seconds: float) -> SlotAnswer | None:
        """End the run on the machine. No other thread may send it orders meanwhile. None if the claim is gone.

        ``reason``: the reason of its failure; None if its role has another jig now, and it must run again.
        """
        attempt.gone.wait(after_seconds)
        self._await_trust(attempt)
        if attempt.gone.is_set():
            return None
        try:
            answer = self._cancel(attempt, reason)
        except BaseException as error:
            answer = _fault(attempt, error, begun=True)
        return self._stored(answer, Mask())

    def _stored(self, answer: SlotAnswer, mask: Mask) -> SlotAnswer:
        """With texts that can be stored, and the time when it ended."""
        outcome = bounded(answer.outcome, mask) if answer.outcome is not None else None
        return replace(answer, outcome=outcome, ended=answer.ended or self._session.now())

    def _await_trust(self, attempt: Attempt) -> None:
        """Nothing starts while the claim may be gone; a new session has set ``stop``."""
        while not (self._session.trusted and self._session.id == attempt.session):
            if attempt.gone.wait(TRUST_SECONDS):
                return

    def _work(self, attempt: Attempt, sources: inputs.InputSources, progress: RunProgress) -> SlotAnswer | None:
        try:
            if refusal := self._on_transition(attempt):
                return SlotAnswer(RunEvent.ENDED, refusal)
            ahead, attempt.ahead = attempt.ahead, None
            blobs = attributes.read(self._session, sources, ahead)
            decoded = attributes.decoded(sources, blobs)
            opened = self._secrets.opened(inputs.visible(inputs.layers(sources, decoded)))
            progress.mask = opened.mask
            sent = attributes.sent(sources, decoded, opened)
        except Sealed as sealed:  # no failure of the run: other hosts may have the key, and it may come
            self._note(attempt, sealed.forbidden, str(sealed))
            if attempt.checking and (attempt.state.takeover or not sealed.own):
                return SlotAnswer(RunEvent.ENDED, Failed(str(sealed)))
            return SlotAnswer(RunEvent.SEALED, Unknown(str(sealed), begun=False), own=sealed.own)
        except (Stale, Unavailable, Denied) as gone:
            log.warning("%s: %s", attempt.name, gone)
            return SlotAnswer(RunEvent.UNREAD, Unknown(f"ZooKeeper: {gone}", begun=False))
        except Spoiled as wrong:  # no failure of the run: it waits until they are mended
            if attempt.checking:
                return SlotAnswer(RunEvent.ENDED, Failed(str(wrong)))
            return SlotAnswer(RunEvent.SPOILED, Unknown(str(wrong), begun=False), spoiled=wrong.path)
        except Invalid as wrong:  # in the input of the jig, not in this host
            return SlotAnswer(RunEvent.ENDED, Failed(str(wrong)))
        except Exception as odd:
            if _of_host(odd):
                raise
            log.warning("%s: its run cannot be prepared", attempt.name, exc_info=odd)
            return SlotAnswer(RunEvent.SEALED, Unknown(f"its run cannot be prepared: {reason_of(odd)}", begun=False))
        return self._ordered(attempt, blobs, sent, progress)

    def _ordered(
        self, attempt: Attempt, blobs: attributes.Blobs, sent: JigInputs, progress: RunProgress
    ) -> SlotAnswer | None:
        order, jig = self._order(attempt, sent.opened), self._jigs[attempt.jig]
        if order.check and not (isinstance(jig, Checker) and jig.checks):
            return SlotAnswer(RunEvent.ENDED, Failed(f"jig {attempt.jig} cannot check"))
        if order.check and (changed := attributes.changed_secrets(attempt.grant, blobs, sent.judged)):
            return SlotAnswer(RunEvent.ENDED, Failed(f"{', '.join(changed)}: {FORMER}"))
        progress.ordered = True
        started = time.monotonic()
        outcome = foreign.asked(attempt.jig, jig, order, attempt.stop)
        ended = self._session.now()
        if isinstance(outcome, foreign.Odd):
            return SlotAnswer(RunEvent.FAULT, Unknown(outcome.reason), begun=True, foreign=True)
        if isinstance(outcome, Detached | Boots) and attempt.stop.is_set():
            return _left(attempt)
        metrics.RUN_SECONDS.labels(attempt.jig).observe(time.monotonic() - started)
        return self._answer(attempt, outcome, ended, blobs, sent)

    def _answer(
        self, attempt: Attempt, outcome: Outcome, ended: float, blobs: attributes.Blobs, sent: JigInputs
    ) -> SlotAnswer:
        """The outcome in a jig's answer; nothing in here may lose it."""
        match outcome:
            case Unreachable():
                return SlotAnswer(RunEvent.UNREACHED, outcome, begun=outcome.begun)
            case Unknown(begun=begun):
                return SlotAnswer(RunEvent.FAULT, outcome, begun=begun)
            case Boots():
                return SlotAnswer(RunEvent.BOOTS, outcome)
            case Detached(reason):  # no order told it to let go
                return SlotAnswer(RunEvent.FAULT, Unknown(reason), begun=True)
            case Failed(reason=reason, forbidden=str(setting)):
                self._note(attempt, setting, reason)
                return SlotAnswer(RunEvent.ENDED, outcome, ended)
            case Succeeded() if not attempt.checking:
                try:
                    results = attributes.results(attempt.grant, blobs, sent, self._secrets, outcome)
                except Exception as wrong:  # it is the answer that makes no sense
                    said = f"its returned attributes cannot be kept: {reason_of(wrong)}"
                    return SlotAnswer(
                        RunEvent.ENDED, Failed(said, outcome.exit_code, outcome.tail, None, outcome.log), ended
                    )
                return SlotAnswer(RunEvent.ENDED, outcome, ended, results, sent)
            case _:
                return SlotAnswer(RunEvent.ENDED, outcome, ended)

    def _note(self, attempt: Attempt, setting: str | None, reason: str) -> None:
        """That a file of this host was refused; the machine was not asked for anything yet."""
        if setting is not None:
            self._forbidden.note(attempt.name, attempt.grant.record.generation, setting, reason)

    def _on_transition(self, attempt: Attempt) -> Failed | None:
        """The failure of a run after an exception of its role's hook."""
        if "on_transition" not in attempt.role.hooks or attempt.checking:
            return None
        error = on_transition(self._session, attempt.grant, attempt.role.barclamp)
        if error is None:
            return None
        return failed(error, self._log_file(attempt.grant), self._settings.log_run_bytes, "on_transition: ")

    def _cancel(self, attempt: Attempt, reason: str | None) -> SlotAnswer:
        refusal = foreign.cancelled(attempt.jig, self._jigs[attempt.jig], self._order(attempt, Opened()))
        if isinstance(refusal, foreign.Odd):
            return SlotAnswer(RunEvent.FAULT, Unknown(refusal.reason), begun=True, foreign=True)
        if isinstance(refusal, Unreachable):
            return SlotAnswer(RunEvent.UNREACHED, refusal, begun=True)
        if refusal is not None:
            return SlotAnswer(RunEvent.ENDED, refusal)
        if reason is not None:
            tail, file = kept(self._log_file(attempt.grant))
            return SlotAnswer(RunEvent.ENDED, Failed(reason, tail=tail, log=file))
        said = f"it was ended: its role has jig {attempt.role.jig} now, and had {attempt.jig}"
        return SlotAnswer(RunEvent.ENDED, Lost(said))

    def _order(self, attempt: Attempt, opened: Opened) -> Order:
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
            attributes=merge(opened.attributes, attempt.material) if attempt.material else opened.attributes,
            mask=opened.mask,
            check=attempt.checking,
            timeout_seconds=attempt.role.timeout_seconds,
            log=self._log_file(grant),
            log_bytes=self._settings.log_run_bytes,
        )

    def _log_file(self, grant: claim.Grant) -> Path | None:
        folder = self._settings.log_dir
        return logs.file_of(folder, logs.of_run(grant.vertex.role, grant.fqdn, grant.run)) if folder else None


class RunProgress(msgspec.Struct):
    """The progress of a thread."""

    ordered: bool = False  # the jig was given its order
    mask: Mask = Mask()  # of the secrets that it was given


def _left(attempt: Attempt) -> SlotAnswer | None:
    """It was left alone: to be ended, or because the node is not ours any more, which the turn thread is about to hear."""
    return None if attempt.gone.is_set() else SlotAnswer(RunEvent.LEFT)


def _fault(attempt: Attempt, error: BaseException, begun: bool) -> SlotAnswer:
    own = isinstance(error, OwnFault)
    log.warning("%s: this host failed at it: %s", attempt.name, error, exc_info=None if own else error)
    said = str(error) if own else reason_of(error)
    return SlotAnswer(RunEvent.FAULT, Unknown(said, begun, reaching=own), begun=begun, recorded=not _of_host(error))


def _of_host(error: BaseException) -> bool:
    """Whether no record can have caused it: a resource of this host is lacking."""
    no_thread = type(error) is RuntimeError and "thread" in str(error)
    return isinstance(error, OSError | MemoryError | ImportError | OwnFault) or no_thread
