"""Calls with an idempotency key: a call that is repeated writes nothing, and gets the outcome of the first one.

The mark of a call is part of its first transaction, so of two calls with one key at two servers, one writes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nodepool_ocb.errors import Conflict, Invalid, OcbError, OutcomeUnknown
from nodepool_ocb.model import keyed, paths
from nodepool_ocb.model.keyed import KeyedCall
from nodepool_ocb.model.records import Create
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.operation import Operation, Performed
from nodepool_ocb.operations.wire import codec
from nodepool_ocb.operations.wire.problems import Problem, error_of, problem_of
from nodepool_ocb.views.changes import ChangeRow

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Condition, Performer, Reader

LOOK_SECONDS: Final = 0.2  # between two looks for the outcome of a call under way
AWAITED_SECONDS: Final = 10.0  # for the outcome of a call that may be under way at another server
SPARE_SECONDS: Final = 0.5  # before the deadline, for the refusal
OUTCOME_BYTES: Final = 100 * 1024  # a longer outcome is not kept


class CallRepeated(Conflict):
    """A call with this key has written already."""


class CallKey(msgspec.Struct, frozen=True):
    """The name of the mark of a call, and the digest of the call."""

    id: str
    digest: str


class CallOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a call, as its mark keeps it: answers and rows, or an error."""

    answers: tuple[msgspec.Raw, ...] = ()
    rows: tuple[ChangeRow, ...] = ()
    error: Problem | None = None


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(CallOutcome).decode


def call_key(token: str, key: str, operation: Operation[Any], reason: str | None) -> CallKey:
    """The key of a call by the holder of the token with this id."""
    name = registry.name_of(type(operation))
    return CallKey(keyed.id_of(token, key), keyed.digest(name, codec.encode_fields(operation), reason))


def mark(performer: Performer, key: CallKey, operation: Operation[Any]) -> None:
    """Make a performer write the mark of its call, and refuse a call that has one with CallRepeated."""
    record = KeyedCall(operation=registry.name_of(type(operation)), digest=key.digest)
    performer.mark = Create(paths.call(key.id), record)
    performer.conditions = (*performer.conditions, _unmarked(key))


def _unmarked(key: CallKey) -> Condition:
    def condition(reader: Reader) -> None:
        if reader.performer.mark is not None and reader.session.get(paths.call(key.id)) is not None:
            raise CallRepeated("a call with this idempotency key has written already")

    return condition


def end(session: Any, key: CallKey, operation: Operation[Any], ended: Performed[Any] | OcbError) -> None:
    """Write the outcome of a call beside its mark. Raises Unavailable or Denied."""
    from nodepool_ocb.store import keyed

    keyed.end(session, key.id, _text(operation, ended))


def _text(operation: Operation[Any], ended: Performed[Any] | OcbError) -> str | None:
    """The outcome as JSON; None for one that is not kept."""
    if isinstance(ended, OcbError):
        return _encode(CallOutcome(error=problem_of(ended))).decode()
    if operation.confidential:
        return None
    answers = tuple(msgspec.Raw(codec.encode_answer(each)) for each in ended.answers)
    text = _encode(CallOutcome(answers=answers, rows=ended.rows)).decode()
    return text if len(text) <= OUTCOME_BYTES else None


def repeated(session: Any, key: CallKey, operation: Operation[Any], deadline: float) -> Performed[Any] | None:
    """The outcome of an earlier call with this key; None if there is none that has written.

    It waits for a call that is under way, until the ``deadline`` (monotonic) or for ``AWAITED_SECONDS``. Raises the error that
    the earlier call ended with. Raises Invalid for a key of another call, OutcomeUnknown for a call that was cut off, and
    Conflict for an outcome that is not kept.
    """
    from nodepool_ocb.store import keyed

    until = min(deadline - SPARE_SECONDS, time.monotonic() + AWAITED_SECONDS)
    while (found := keyed.one(session, key.id)) is not None:
        if found.record.digest != key.digest:
            raise Invalid("this idempotency key is of another call; give each call a key of its own")
        if found.record.ended:
            return _performed(operation, found.record.outcome)
        if time.monotonic() >= until:
            raise OutcomeUnknown(
                "the call with this idempotency key has written, and its outcome is not known: it is under way at another"
                " server, or was cut off; nothing is repeated; see: nodepool-ocb history"
            )
        time.sleep(LOOK_SECONDS)
    return None


def _performed(operation: Operation[Any], text: str | None) -> Performed[Any]:
    if text is None:
        raise Conflict(
            f"{operation.title()} was carried out, and its answer is not kept; nothing is repeated; see: nodepool-ocb history"
        )
    outcome = _decode(text)
    if outcome.error is not None:
        raise error_of(outcome.error)
    answers = tuple(codec.decode_answer(type(operation), bytes(each)) for each in outcome.answers)
    return Performed(answers=answers, rows=outcome.rows, dry_run=False)
