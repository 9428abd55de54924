"""Jigs of other packages: every exception and every odd answer of such a jig becomes a value.

A fault in the code of a package says nothing of this host and nothing of the machine. So it counts neither as a fault of
the host nor as a failure of the run. Exceptions of the project's own jigs pass: those are faults of this host.
"""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
from msgspec.structs import replace

from nodepool_ocb.extensions import in_a_line
from nodepool_ocb.jigs.jig import Failed, Fenced, Jig, Order, Outcome, Succeeded, Unreachable
from nodepool_ocb.jigs.output import Output, kept

OUTCOMES: Final[tuple[type, ...]] = get_args(Outcome)
REFUSALS: Final[tuple[type, ...]] = (Unreachable, Fenced, type(None))


class Odd(msgspec.Struct, frozen=True):
    """A jig raised, or gave an answer that no jig may give."""

    reason: str


def asked(name: str, jig: Jig, order: Order, stop: threading.Event) -> Outcome | Odd:
    """The answer to an order. An answer without a log names the file that the jig wrote, or that is made of its tail."""
    try:
        outcome: Any = jig.run(order, stop)
    except BaseException as error:
        if _own(jig):
            raise
        _append(order, traceback.format_exception(error))
        return Odd(f"jig {name} raised {in_a_line(error)}")
    if odd := _oddness(outcome, OUTCOMES):
        return Odd(f"jig {name} {odd}")
    return _logged(order, outcome) if isinstance(outcome, Succeeded | Failed) and outcome.log is None else outcome


def cancelled(name: str, jig: Jig, order: Order) -> Unreachable | Fenced | Odd | None:
    """The answer to the wish that a run ends."""
    try:
        refusal: Any = jig.cancel(order)
    except BaseException as error:
        if _own(jig):
            raise
        return Odd(f"jig {name} cannot cancel: it raised {in_a_line(error)}")
    odd = _oddness(refusal, REFUSALS)
    return Odd(f"jig {name} cannot cancel: it {odd}") if odd else refusal


def _own(jig: Jig) -> bool:
    return type(jig).__module__.partition(".")[0] == "nodepool_ocb"


def _oddness(answer: object, kinds: tuple[type, ...]) -> str:
    """The fault of an answer; empty for one that can be used. A field of another type would end the turn, not the run."""
    if not isinstance(answer, kinds):
        return f"answered {type(answer).__name__}, which is no outcome"
    if not isinstance(answer, msgspec.Struct):  # None
        return ""
    for field in _fields(type(answer)):
        value = getattr(answer, field.name)
        if not _fits(field.name, field.type, value):
            return f"answered {type(answer).__name__} with {field.name}={type(value).__name__}"
    return ""


@cache  # msgspec evaluates the annotations anew at each call: half a millisecond for each run
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _fits(name: str, wanted: Any, value: object) -> bool:
    if name == "log":
        return isinstance(value, Path | None)
    if name in ("attributes", "written"):  # their content is checked where it is kept
        return isinstance(value, dict | None)
    try:
        msgspec.convert(value, wanted, strict=True)
    except msgspec.ValidationError:
        return False
    return True


def _logged(order: Order, outcome: Succeeded | Failed) -> Succeeded | Failed:
    file = order.log
    if file is None:
        return outcome
    if not os.path.exists(file):  # costs a third of Path.exists, for each run
        if not outcome.tail:
            return outcome
        with Output(file, order.log_bytes, order.mask) as output:
            output.take(0, outcome.tail.encode(errors="backslashreplace"))
        return replace(outcome, log=output.file)
    return replace(outcome, tail=outcome.tail or kept(file)[0], log=file)


def _append(order: Order, lines: list[str]) -> None:
    """The traceback, behind the output of the jig; the run goes without it where the file cannot be written."""
    if order.log is None:
        return
    text = order.mask.text("".join(lines))
    with contextlib.suppress(OSError):
        order.log.parent.mkdir(parents=True, exist_ok=True)
        with open(order.log, "ab", opener=_private) as file:
            room = max(0, order.log_bytes - file.tell())  # a run that goes on raising is tried again and again
            file.write(text.encode(errors="backslashreplace")[:room])


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
