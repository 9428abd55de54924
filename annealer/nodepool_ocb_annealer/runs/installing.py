"""Carries out the steps of installations, one for each node that is held in phase BOOTING.

``provisioning.installation.decide`` decides from the record, the world and the newest look at the machine. All on the turn
thread, except looks and the reading of images, which block: they have threads of their own, and no slot. Nothing is ordered
from a machine before the record that allows it is written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec.structs import replace

from nodepool_ocb.daemon.workers import WorkerQueue
from nodepool_ocb.engine import installing
from nodepool_ocb.engine.claim import Grant
from nodepool_ocb.engine.run import RunEvent, RunPhase
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Conflict, Invalid, OcbError, reason_of
from nodepool_ocb.jigs.jig import Failed, Succeeded, Unknown
from nodepool_ocb.jigs.ssh.boots import BootQuestion
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.model.installation import Installation, InstallPurpose, InstallStep
from nodepool_ocb.model.records import Change, Node
from nodepool_ocb.provisioning import orders, publications
from nodepool_ocb.provisioning.evidence.requests import NO_REQUEST
from nodepool_ocb.provisioning.installation import (
    BootLook,
    StepAction,
    StepDecision,
    StepFacts,
    adopted,
    advanced,
    decide,
    following,
)
from nodepool_ocb.provisioning.orders import ChosenImage, Wish
from nodepool_ocb.store import images
from nodepool_ocb_annealer.consoles.reading import Consoles
from nodepool_ocb_annealer.consoles.requests import RequestWatch
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.runs import beginnings, captured, installations
from nodepool_ocb_annealer.runs.attempts import Attempt, SlotAnswer
from nodepool_ocb_annealer.runs.beginnings import Beginning
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

log = logging.getLogger(__name__)

LOOKS_AT_ONCE: Final = 8
NOTE_SECONDS: Final = 5.0  # between two obstacles that are written
ORDER_SECONDS: Final = 30.0  # between two orders to boot

Answered: TypeAlias = Callable[[Attempt, SlotAnswer], None]


@runtime_checkable
class BootJig(Protocol):
    """A jig that answers ``Boots``."""

    @property
    def state_dir(self) -> str: ...
    def look(self, fqdn: str, node: Node, question: BootQuestion) -> BootLook: ...


class InstallProgress(msgspec.Struct):
    """The part of an installation that this annealer alone knows."""

    busy: bool = False  # a transaction or a look is under way
    sight: BootLook | None = None
    seen_at: InstallStep | None = None  # the step at which that was seen
    next_look: float = 0.0  # not before (monotonic)
    ordered: float = -ORDER_SECONDS  # when the machine was told to boot (monotonic)
    noted: float = -NOTE_SECONDS  # when an obstacle was written (monotonic)
    former: str = ""  # the run that ours continues
    step: InstallStep | None = None  # to which the newest line of the console belongs


class OwnTrouble(msgspec.Struct, frozen=True):
    """This host failed at a look; it says nothing about the machine."""

    reason: str
    reaching: bool = False


class Installer:
    """The installations of one annealer; ``answered`` is told of their ends."""

    def __init__(self, context: AnnealerContext, answered: Answered) -> None:
        self._context, self._answered = context, answered
        self._workers = WorkerQueue("install", LOOKS_AT_ONCE, context.post)
        self._progress: dict[str, InstallProgress] = {}  # by node
        self._consoles = Consoles(lambda: context.settings.consoles, self._console_says)
        self._requests = RequestWatch(context, self._look_soon)

    def begin(self, attempt: Attempt) -> None:
        """Begin, or continue at the step in the record."""
        self._progress[attempt.fqdn] = InstallProgress()
        self.look(attempt)

    def look(self, attempt: Attempt) -> None:
        """Decide again: a record changed, or it is time."""
        progress = self._progress.get(attempt.fqdn)
        if progress is None or progress.busy or attempt.state.phase is not RunPhase.BOOTING:
            return
        context, grant = self._context, attempt.grant
        found, now = installing.of_vertex(grant.vertex), context.session.now()
        if found is None:
            self._without_record(attempt, progress)
            return
        if found.record.run != grant.run:  # of a former annealer: its deadline may be over
            progress.busy, progress.former = True, found.record.run
            self._write(attempt, found, adopted(found.record, grant.run, grant.epoch, now))
            return
        self._capture(attempt, progress, found.record)
        if progress.seen_at is not found.record.step:
            progress.sight, progress.next_look = None, 0.0
        unpublished = publications.unpublished(context.world, attempt.fqdn)
        facts = StepFacts(
            unpublished=unpublished,
            unreached=publications.unreached(context.world, unpublished),
            sight=progress.sight,
            now=now,
            **installations.power(grant, found.record),
        )
        self._carry_out(attempt, progress, found, decide(found.record, facts))

    def forget(self, attempt: Attempt) -> None:
        """The node is not ours any more."""
        self._progress.pop(attempt.fqdn, None)
        self._consoles.end(attempt.fqdn)
        self._requests.forget(attempt.fqdn)

    def close(self) -> None:
        """Begin no more looks, and give the consoles back."""
        self._workers.close()
        self._consoles.close()
        self._requests.close()

    def _capture(self, attempt: Attempt, progress: InstallProgress, record: Installation) -> None:
        """Read the console of the machine, as the log of the run."""
        if progress.step is not record.step:
            self._consoles.fresh(attempt.fqdn)
            self._requests.forget(attempt.fqdn)
            progress.step = record.step
        if attempt.fqdn not in self._consoles:
            order = captured.order(self._context, attempt, record, progress.former)
            if order is not None:
                self._consoles.begin(attempt.fqdn, order)

    def _console_says(self, fqdn: str) -> None:
        """From the thread of the consoles."""
        self._context.post(lambda: self._look_soon(fqdn))

    def _look_soon(self, fqdn: str) -> None:
        self._context.timers.at(time.monotonic(), Timer(TimerKind.INSTALL, fqdn))

    def _requested(self, attempt: Attempt, record: Installation) -> str | None:
        """A sentence about its requests, while it boots from the network and while its installer works; None at other steps."""
        if record.step not in (InstallStep.REBOOTING, InstallStep.IDENTIFIED, InstallStep.WRITTEN):
            self._requests.forget(attempt.fqdn)
            return None
        macs, ordered = installing.macs(attempt.grant.vertex.node), record.step is not InstallStep.REBOOTING
        return self._requests.look(attempt.fqdn, record.nonce, macs, self._jig(attempt), ordered=ordered)

    def _carry_out(
        self, attempt: Attempt, progress: InstallProgress, found: Stored[Installation], decision: StepDecision
    ) -> None:
        record, now = found.record, self._context.session.now()
        match decision.do:
            case StepAction.ADVANCE:
                after = advanced(record, following(record), now, boot_id=decision.boot_id or record.boot_id)
                try:
                    changes = installations.advancing(attempt.grant, found, after, now)
                except Conflict as switched:  # by another request, which ends
                    log.info("%s: %s", attempt.name, switched)
                    self._later(attempt)
                    return
                progress.busy = True
                log.info("%s: step %s is done", attempt.name, after.step)
                self._send(attempt, changes)
            case StepAction.FAIL:
                self._end(attempt, Failed(decision.text))
            case StepAction.SUCCEED:
                self._end(attempt, Succeeded({}, tail=installations.tail(record, decision.text)))
            case _ if (news := self._news(attempt, progress, record, decision)) != record:
                progress.busy, progress.noted = True, time.monotonic()
                self._write(attempt, found, news)
            case StepAction.WAIT:
                self._later(attempt)
            case StepAction.LOOK | StepAction.REBOOT:
                self._ask(attempt, progress, record, reboot=decision.do is StepAction.REBOOT)

    # -- the first record --

    def _without_record(self, attempt: Attempt, progress: InstallProgress) -> None:
        """Choose image and disk, then write the first record; or end, if the record says why, or is gone."""
        over, wish = installing.stored(attempt.grant.vertex.node), attempt.wish
        if over is not None and over.record.reason and _of_run(attempt.grant, over.record):
            self._end(attempt, Failed(over.record.reason))
            return
        if wish is None:
            self._end(attempt, Failed("the record of the installation is gone"))
            return
        try:
            node = attempt.grant.vertex.node.record
            begun = beginnings.beginning(attempt.jig, wish, node.install if node is not None else None)
        except Invalid as wrong:
            self._end(attempt, Failed(f"step {InstallStep.CHECKED}: {wrong}"))
            return
        progress.busy = True
        if cleared := installations.cleared(attempt.grant, self._context.session.now()):
            self._send(attempt, cleared)
        elif begun.purpose is not InstallPurpose.INSTALL:
            self._chosen(attempt, begun, None)
        elif not self._workers.ask(partial(self._choose, begun.wish), partial(self._chosen, attempt, begun)):
            self._fault(attempt, OwnTrouble("no thread could be started"))

    def _choose(self, wish: Wish) -> ChosenImage | Invalid | OwnTrouble:
        """In a worker."""
        try:
            found = images.read(self._context.session, [wish.image])
            view = found.get(wish.image)
            builds = {each.id: each.record for each in view.builds} if view is not None else {}
            return orders.newest(wish.image, builds, wish.build)
        except Invalid as wrong:
            return wrong
        except OcbError as error:
            return OwnTrouble(reason_of(error))
        except Exception as error:
            return _odd("the image is chosen", error)

    def _chosen(self, attempt: Attempt, begun: Beginning, image: ChosenImage | Invalid | OwnTrouble | None) -> None:
        if attempt.state.phase is not RunPhase.BOOTING:
            return
        if isinstance(image, OwnTrouble):
            self._fault(attempt, image)
            return
        try:
            if isinstance(image, Invalid):
                raise image
            state_dir, now = self._jig(attempt).state_dir, self._context.session.now()
            record, token = beginnings.first(attempt.grant, begun, image, state_dir, now)
        except Invalid as wrong:
            self._end(attempt, Failed(f"step {InstallStep.CHECKED}: {wrong}"))
            return
        changes = installations.begun(attempt.grant, record, token, record.since)
        log.info("%s: begins to %s: %s", attempt.name, record.purpose, installations.subject(record))
        self._send(attempt, changes)

    # -- looks --

    def _ask(self, attempt: Attempt, progress: InstallProgress, record: Installation, *, reboot: bool) -> None:
        """Look at the machine once more, or tell it to boot; after a pause."""
        now, node = time.monotonic(), attempt.grant.vertex.node.record
        reboot = reboot and now >= progress.ordered + ORDER_SECONDS
        if node is None or (now < progress.next_look and not reboot):
            self._later(attempt)
            return
        question = BootQuestion(epoch=attempt.grant.epoch, file=record.boot_file)
        if record.step is InstallStep.PUBLISHED_LOCAL and record.purpose is InstallPurpose.INSTALL:
            question = replace(question, former=node.host_keys)
            node = replace(node, host_keys=(record.host_key,))
        elif record.former_key and node.host_keys:
            node = replace(node, host_keys=(*node.host_keys, record.former_key))
        if reboot:
            progress.ordered = now
            question = replace(question, boot_id=record.boot_id, reboot=record.reboot)
            log.info("%s: the machine is told to boot from the network", attempt.name)
        progress.busy = True
        look = partial(self._look_in_worker, attempt, self._jig(attempt), node, question)
        if not self._workers.ask(look, partial(self._seen, attempt, record.step)):
            self._fault(attempt, OwnTrouble("no thread could be started"))

    def _look_in_worker(
        self, attempt: Attempt, jig: BootJig, node: Node, question: BootQuestion
    ) -> BootLook | OwnTrouble | None:
        """None while the claim may be gone: nothing is asked then."""
        session = self._context.session
        if attempt.gone.is_set() or not (session.trusted and session.id == attempt.session):
            return None
        try:
            return jig.look(attempt.fqdn, node, question)
        except OwnFault as fault:
            return OwnTrouble(str(fault), reaching=True)
        except OSError as lacking:
            return OwnTrouble(reason_of(lacking))
        except Exception as error:  # an installation without an answer would wait for ever, beyond its deadline
            return _odd(f"{attempt.name}: the machine is asked", error)

    def _seen(self, attempt: Attempt, step: InstallStep, sight: BootLook | OwnTrouble | None) -> None:
        progress = self._progress.get(attempt.fqdn)
        if progress is None or attempt.state.phase is not RunPhase.BOOTING:
            return
        progress.busy = False
        if isinstance(sight, OwnTrouble):
            self._fault(attempt, sight)
            return
        if sight is None:
            self._later(attempt)
            return
        progress.sight, progress.seen_at = sight, step
        progress.next_look = time.monotonic() + self._context.settings.dead_probe_seconds
        self.look(attempt)

    def _news(
        self, attempt: Attempt, progress: InstallProgress, record: Installation, decision: StepDecision
    ) -> Installation:
        """The record with the obstacle, if it comes from an observation, and with other observations; not too often."""
        requested = self._requested(attempt, record)
        if requested is None or (record.requests and requested.startswith(NO_REQUEST)):
            requested = record.requests  # of a former annealer, which read an older part of the log
        if time.monotonic() < progress.noted + NOTE_SECONDS:
            return record
        observed = decision.do is StepAction.WAIT or progress.sight is not None
        waits = decision.text if observed else record.waits
        console = self._consoles.observed(attempt.fqdn) or record.console
        return replace(record, waits=waits, console=console, requests=requested)

    # -- ends and waits --

    def _jig(self, attempt: Attempt) -> BootJig:
        jig = self._context.jigs[attempt.jig]
        assert isinstance(jig, BootJig), "only such a jig answers Boots"
        return jig

    def _later(self, attempt: Attempt) -> None:
        wait = self._context.settings.dead_probe_seconds
        self._context.timers.at(time.monotonic() + wait, Timer(TimerKind.INSTALL, attempt.fqdn))

    def _end(self, attempt: Attempt, outcome: Succeeded | Failed) -> None:
        self._progress.pop(attempt.fqdn, None)
        self._requests.forget(attempt.fqdn)
        tail, file = self._consoles.end(attempt.fqdn)
        ended = replace(outcome, tail=outcome.tail or tail, log=file)
        self._answered(attempt, SlotAnswer(RunEvent.ENDED, ended, self._context.session.now()))

    def _fault(self, attempt: Attempt, trouble: OwnTrouble) -> None:
        log.warning("%s: this host failed at its installation: %s", attempt.name, trouble.reason)
        fault = Unknown(trouble.reason, reaching=trouble.reaching)
        self._answered(attempt, SlotAnswer(RunEvent.FAULT, fault, self._context.session.now()))

    # -- transactions --

    def _write(self, attempt: Attempt, before: Stored[Installation], record: Installation) -> None:
        self._send(attempt, installations.written(attempt.grant, before, record))

    def _send(self, attempt: Attempt, changes: list[Change]) -> None:
        self._context.send(changes, partial(self._written, attempt), f"installation of {attempt.fqdn}")

    def _written(self, attempt: Attempt, refused: OcbError | None) -> None:
        progress = self._progress.get(attempt.fqdn)
        if progress is None or attempt.state.phase is not RunPhase.BOOTING:
            return
        progress.busy = False
        if refused is None:
            self.look(attempt)
            return
        log.info("%s: its installation is decided again: %s", attempt.name, refused)
        self._later(attempt)


def _odd(what: str, error: Exception) -> OwnTrouble:
    """An error that this code does not expect."""
    log.error("%s", what, exc_info=error)
    return OwnTrouble(reason_of(error))


def _of_run(grant: Grant, record: Installation) -> bool:
    """Whether an installation is that of a run, or of the run that it takes over.

    Another noderole of the node may have the same generation, and so may a former one of the same name.
    """
    same = (record.noderole, record.generation) == (grant.vertex.name, grant.record.generation)
    return same and (record.run == grant.run or grant.previous_epoch is not None)
