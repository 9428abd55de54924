"""An operation on behalf of an actor: its rights and limits, the records that it reads, and what the caller hears meanwhile.

A read of the world takes the cache; other reads use the session that the server keeps. A write opens a session of its own, as a
command does: locks that it takes end with it, also if this process is stopped in the middle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.api.actor import (
    OF_MACHINES,
    Actor,
    require_own_deployment,
    require_own_token,
    require_reveal,
    said_by_machine,
    shows_own_token,
)
from nodepool_ocb.api.records import ServedRecords
from nodepool_ocb.errors import NotFound, OcbError, Unavailable
from nodepool_ocb.model.tokens import TokenRole
from nodepool_ocb.operations import repeats
from nodepool_ocb.operations.calls import saving
from nodepool_ocb.operations.limits import narrowing
from nodepool_ocb.operations.limits.narrowing import Limits
from nodepool_ocb.operations.limits.permits import WritePermit
from nodepool_ocb.operations.operation import Call, Near, Operation, Performed, Situation
from nodepool_ocb.operations.performer import Condition, Performer
from nodepool_ocb.operations.plans.saved import PlanDemand, SavedPlan
from nodepool_ocb.operations.reads import versions
from nodepool_ocb.operations.reads.versions import ReadVersions, digest
from nodepool_ocb.operations.reads.world import ReadCensus, ReadWorld, ReadWorldAgain
from nodepool_ocb.operations.repeats import CallKey
from nodepool_ocb.operations.wire.lines import Question
from nodepool_ocb.views.noderoles import NoderoleRow

LONGEST_CONNECT_SECONDS: Final = 5.0
#: The deployments of these tokens are judged by their operations: the node does not exist yet.
JOINING: Final = (TokenRole.JOIN, TokenRole.REGISTER)
REPEATED: Final = "this call was carried out before; this is its outcome"


class AgreementAsked(Exception):
    """The operation asks for agreement, and the call has none. Nothing was written."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.text)
        self.question = question


class OperationOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an operation."""

    operation: Operation[Any]
    reason: str | None = None
    dry_run: bool = False
    agreed: bool = False
    deadline: float  # monotonic
    conditions: tuple[Condition, ...] = ()
    place: str | None = None  # the branch of the object that it writes to, if the answer is to have its new version
    known: tuple[str, ...] = ()  # the versions of the object that the caller may know, as If-Match has them
    save: bool = False  # answer the dry run with a plan
    plan: PlanDemand | None = None  # that the call carries out: a saved plan, or the digest of a dry run
    key: CallKey | None = None  # of a write that may be repeated
    fresh: bool = False  # a read shows all writes before this call
    min_zxid: int | None = None  # a read shows all writes up to here


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """``zxid``: of the newest state that was read or written; ``plan``: the digest of the changes of a dry run.

    ``version``: of the object as the write left it.
    """

    performed: Performed[Any]
    zxid: int
    plan: str | None = None
    saved: SavedPlan | None = None
    version: str | None = None


class HttpCaller:
    """The caller of operations behind a request; ``hear`` gets each note, on the thread that performs."""

    def __init__(self, hear: Callable[[str], None], *, agreed: bool) -> None:
        self._hear, self._agreed = hear, agreed

    def note(self, text: str) -> None:
        self._hear(text)

    def agree(self, text: str, details: Sequence[str]) -> bool:
        """Raises AgreementAsked unless the call carries the agreement."""
        if not self._agreed:
            raise AgreementAsked(Question(text, tuple(details)))
        return False


class ServedPerformer(Performer):
    """Performs the operations of one request."""

    def __init__(
        self, records: ServedRecords, actor: Actor, order: OperationOrder, hear: Callable[[str], None]
    ) -> None:
        call = Call(
            login=actor.token.name,
            host=actor.address,
            verb=order.operation.title(),
            reason=_reason(order),
            dry_run=order.dry_run,
            save=order.save,
            plan=order.plan,
            limited=actor.limits is not None or actor.token.role in OF_MACHINES,
            deployments=_heard(actor),
        )
        caller = HttpCaller(hear, agreed=order.agreed)
        super().__init__(call, caller, lambda: records.settings, order.deadline, order.conditions)
        self._records = records
        self.world: Any = None  # of the cache, while it does not change
        self._limits: Limits | None = None
        self._permit: WritePermit | None = None

    def limit(self, limits: Limits) -> None:
        """From now on the call sees and writes the noderoles within the limits alone."""
        self._limits = limits
        self._permit = WritePermit(limits) if self.world is None else None

    def permit(self, world: Any, changes: Sequence[Any]) -> None:
        """Raises Denied for changes of objects outside the limits."""
        if self._permit is not None:
            self._permit.require(self.call.verb, world, changes)

    def _situation(self, opened: Any, changes: Sequence[Any]) -> Situation:
        found = super()._situation(opened, changes)
        limits = self._limits
        return found if limits is None else replace(found, within=partial(narrowing.noderoles_within, limits))

    def rows_of(self, vertices: list[Any]) -> list[NoderoleRow]:
        """The rows that the server keeps, if this call reads the cache."""
        if self.world is None:
            return super().rows_of(vertices)
        return self._records.rows.of(vertices)

    def load_near(self, opened: Any, near: Near | None) -> Any:  # noqa: ARG002
        """All of it: the limits of a caller are judged by it, and the cache has it."""
        return self.load(opened)

    def load_states(self, opened: Any) -> Any:
        """As ``load_near``."""
        return self.load(opened), None

    def load(self, opened: Any) -> Any:
        """The world of the cache, if this call reads it; else as it is now."""
        if self.world is None:
            found = super().load(opened)
            if self._permit is not None:
                self._permit.begin(found)
            return found
        self.journal.declare(self.world)
        for reason in self.world.unreadable.values():
            self.caller.note(f"warning: this record cannot be read: {reason}")
        return self.world


def _reason(order: OperationOrder) -> str | None:
    """For the journal: that of the call, or the one that the caller gave to a field of the operation."""
    if order.reason is not None:
        return order.reason
    fields = {each.name: each for each in msgspec.structs.fields(type(order.operation))}
    given = getattr(order.operation, "reason", None)
    return given if "reason" in fields and given != fields["reason"].default else None


def _heard(actor: Actor) -> frozenset[str] | None:
    """The deployments of which the journal tells this caller; None: of all."""
    limits = actor.limits
    if limits is None:
        return frozenset() if actor.token.role in OF_MACHINES else None
    return frozenset(limits.deployments) if limits.selector is None else frozenset()


def perform(records: ServedRecords, actor: Actor, order: OperationOrder, hear: Callable[[str], None]) -> Answered:
    """Perform it; on a thread that may wait. Raises the errors of the operation, and AgreementAsked."""
    order = replace(order, operation=said_by_machine(actor, order.operation))
    require_own_token(actor, order.operation)
    require_reveal(actor, order.operation)
    require_own_deployment(actor, order.operation)
    performer = ServedPerformer(records, actor, order, hear)
    if not order.operation.writes:
        return _read(records, actor, order, performer)
    if not records.trusted:
        raise Unavailable("ZooKeeper does not answer this server; nothing was written; try again")
    patience = min(LONGEST_CONNECT_SECONDS, max(0.1, order.deadline - time.monotonic()))
    with performer.session(patience) as own, _written(records, performer):
        key = None if order.dry_run else order.key
        if key is not None and (found := repeats.repeated(own, key, order.operation, order.deadline)):
            performer.caller.note(REPEATED)
            return Answered(performed=found, zxid=own.last_zxid)
        if order.save:
            saving.refuse(order.operation, performer.call)
        place = None if order.dry_run else order.place
        before = {} if place is None else versions.seen(own, place)
        if key is not None:
            performed = _once(performer, actor, order, key, own)
        else:
            performed = _within_limits(performer, actor, order.operation, own)
        saved = saving.plan_of(performer) if order.save else None
        plan = performer.basis.digest if performer.basis is not None and order.dry_run else None
        version = None if place is None else _version(performer, own, order, before)
        return Answered(performed=performed, zxid=own.last_zxid, plan=plan, saved=saved, version=version)


def _version(performer: ServedPerformer, own: Any, order: OperationOrder, before: Mapping[str, int]) -> str | None:
    """The version of the object after the write; None also if ZooKeeper goes away meanwhile: the write is done.

    A write that changes nothing meets no condition, so the caller may not know the version that it began from.
    """
    place, known = order.place, order.known
    if place is None or not (not known or {versions.ANY, versions.digest(before.items())} & {*known}):
        return None
    with suppress(OcbError):
        return versions.written(own, place, before, performer.changes, performer.committed)
    return None


@contextmanager
def _written(records: ServedRecords, performer: ServedPerformer) -> Iterator[None]:
    """After the answer no read shows the records of before, and no token opens that this write revokes."""
    try:
        yield
    finally:
        records.wrote(each.path for each in performer.changes)


def _once(performer: ServedPerformer, actor: Actor, order: OperationOrder, key: CallKey, own: Any) -> Performed[Any]:
    """Perform it, unless a call with its key has written meanwhile: then the outcome of that call."""
    repeats.mark(performer, key, order.operation)
    try:
        performed = _within_limits(performer, actor, order.operation, own)
    except OcbError as error:
        if performer.mark is None:
            _end(own, key, order.operation, error)
        elif (found := repeats.repeated(own, key, order.operation, order.deadline)) is not None:
            performer.caller.note(REPEATED)  # the records of that call led to the error
            return found
        raise
    if performer.mark is None:
        _end(own, key, order.operation, performed)
    return performed


def _end(own: Any, key: CallKey, operation: Operation[Any], ended: Performed[Any] | OcbError) -> None:
    """Write the outcome; if that fails, a repetition of the call lacks it, and writes nothing either."""
    with suppress(OcbError):
        repeats.end(own, key, operation, ended)


def _read(records: ServedRecords, actor: Actor, order: OperationOrder, performer: ServedPerformer) -> Answered:
    if order.fresh or order.min_zxid is not None:
        records.catch_up(None if order.fresh else order.min_zxid, order.deadline)
    with ExitStack() as stack:
        reads = order.operation.reads
        if ReadWorld in reads or (
            actor.limits is not None and not {ReadWorldAgain, ReadCensus}.isdisjoint(reads)
        ):  # within limits it reads the cache
            performer.world = stack.enter_context(records.reading())
        zxid = records.zxid
        performed = _within_limits(performer, actor, order.operation, records.session)
    return Answered(performed=performed, zxid=zxid)


def _within_limits(performer: ServedPerformer, actor: Actor, operation: Operation[Any], opened: Any) -> Performed[Any]:
    """Perform it within the limits of the token. A node that joins does not exist yet: its deployment was judged before."""
    wanted = actor.limits
    if wanted is None or actor.token.role in JOINING or shows_own_token(actor, operation):
        return performer.perform(operation, opened)
    with _unhinted():
        performer.limit(wanted)
        found = performer.read(narrowing.narrowed(operation, wanted), opened)
        performer.conditions = (*performer.conditions, narrowing.within(found.operation, wanted))
        performed = performer.perform(found.operation, opened)
    answers = tuple(found.keep(answer) for answer in performed.answers)
    return replace(performed, answers=answers)


@contextmanager
def _unhinted() -> Iterator[None]:
    """A hint that names objects outside the limits is left out of NotFound."""
    try:
        yield
    except NotFound as unknown:
        raise NotFound(str(unknown).partition("; did you mean")[0]) from unknown


class DatedVersion(msgspec.Struct, frozen=True):
    """The version of a branch, None for one that does not exist; ``zxid``: of the state that it was read from."""

    version: str | None
    zxid: int


def version_of(records: ServedRecords, actor: Actor, order: OperationOrder, place: str) -> DatedVersion:
    """The version of a branch as it is now."""
    performer = ServedPerformer(records, actor, order, lambda _: None)
    version = performer.read(iter(ReadVersions((place,))), records.session)
    return DatedVersion(version, records.session.last_zxid)


def world_version(records: ServedRecords, actor: Actor, order: OperationOrder, place: str) -> str | None:
    """The version of a document of the world, as new as the order demands; None before the world is known."""
    if order.min_zxid is not None:
        records.catch_up(order.min_zxid, order.deadline)
    version = records.world_version
    return None if version is None else version_for(actor, place, version)


def version_for(actor: Actor, place: str, version: str) -> str:
    """The version of a document of the world for this actor: another place or another limit has another document."""
    limited = "" if actor.limits is None else actor.limits.text
    return digest([(version, 0), (limited, 1), (place, 2)])
