"""The description of a kind of execution for a caller that follows or awaits one; and the note without an annealer. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from nodepool_ocb.engine.acting.annealers import START
from nodepool_ocb.errors import NotFound, OcbError
from nodepool_ocb.model.executions import ExecutionKind, Key
from nodepool_ocb.operations.operation import Note, Operation, Steps
from nodepool_ocb.operations.reads.executions import AnnealerRuns

NO_ANNEALER: Final = f"no annealer is running: nothing of it moves; {START}"


class ExecutionStatus(Protocol):
    """An execution at one moment."""

    @property
    def over(self) -> bool: ...


S = TypeVar("S", bound=ExecutionStatus)


class ExecutionMoment(NamedTuple, Generic[S]):
    """One look at an execution."""

    found: S | None  # None: it is gone
    annealers: bool  # an annealer is running


class Watched(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """A kind of execution that is followed."""

    kind: ExecutionKind[Any]
    read: Callable[[Key], Steps[S | None]]  # the status; None: it is gone
    look: Callable[[Key], Operation[ExecutionMoment[S]]]  # that a client of the API polls
    tick_seconds: float  # between two reads, if nothing happens
    rest_seconds: float  # at most, after a long read
    every_tick: bool  # it changes without an event below its own znode


class ExecutionEnd(NamedTuple):
    """The end of a wait."""

    outcome: str
    error: OcbError | None  # with which the wait ends


def moment(read: Steps[S | None]) -> Steps[ExecutionMoment[S]]:
    """One look at the execution that is read so."""
    found = yield from read
    return ExecutionMoment(found, (yield from AnnealerRuns()))


def gone(kind: ExecutionKind[Any], key: Key) -> ExecutionEnd:
    """The end of a wait for an execution that was deleted."""
    return ExecutionEnd("deleted", NotFound(kind.deleted(key)))


def warn_of_no_annealer() -> Steps[None]:
    """A note if no annealer is running."""
    if not (yield from AnnealerRuns()):
        yield Note(NO_ANNEALER)
