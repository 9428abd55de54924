"""Jigs of other packages: each exception and each odd answer of one is a value that names the jig."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodepool_ocb.jigs.jig import Failed, Fenced, Lost, Succeeded, Unreachable
from nodepool_ocb.jigs.noop import NoopJig
from nodepool_ocb.telemetry.redaction import Mask
from nodepool_ocb_annealer.runs import foreign
from nodepool_ocb_annealer.runs.foreign import Odd

STOP = threading.Event()


class Foreign:
    """A jig of this module that gives, or raises, the same each time."""

    def __init__(self, answer: object, writes: str = "") -> None:
        self.answer, self.writes = answer, writes

    def _answered(self, order: Any) -> Any:
        if self.writes:
            order.log.parent.mkdir(exist_ok=True)
            order.log.write_text(self.writes)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def run(self, order: Any, _: threading.Event) -> Any:
        return self._answered(order)

    def cancel(self, order: Any) -> Any:
        return self._answered(order)


class Own(NoopJig):
    """As one of the project's own."""

    def run(self, *_: Any) -> Any:
        raise KeyError("no room")

    cancel = run


Own.__module__ = "nodepool_ocb.jigs.own"


def order(log: Path | None = None, log_bytes: int = 1000) -> Any:
    return SimpleNamespace(log=log, log_bytes=log_bytes, mask=Mask(["hidden"]))


@pytest.mark.parametrize(
    "outcome",
    [
        Succeeded({}, exit_code=0, tail="", log=None),
        Failed("exit code 1", 1),
        Unreachable("connect", "no route"),
        Lost("it is gone"),
        Fenced(7),
    ],
)
def test_an_outcome_is_given_as_it_is(outcome: Any) -> None:
    assert foreign.asked("own", Foreign(outcome), order(), STOP) == outcome


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "jig own answered NoneType, which is no outcome"),
        ("done", "jig own answered str, which is no outcome"),
        (Failed(7), "jig own answered Failed with reason=int"),  # type: ignore[arg-type]
        (Failed("x", "1"), "jig own answered Failed with exit_code=str"),  # type: ignore[arg-type]
        (Failed("x", log="file"), "jig own answered Failed with log=str"),  # type: ignore[arg-type]
        (Succeeded([]), "jig own answered Succeeded with attributes=list"),  # type: ignore[arg-type]
        (ValueError("no\nlicence"), "jig own raised ValueError: no"),
        (SystemExit(3), "jig own raised SystemExit: 3"),
    ],
)
def test_an_odd_answer_and_an_exception_name_the_jig(answer: Any, said: str) -> None:
    found = foreign.asked("own", Foreign(answer), order(), STOP)
    assert isinstance(found, Odd)
    assert found.reason.startswith(said)


@pytest.mark.parametrize("answer", [None, Unreachable("connect", "no route"), Fenced(7)])
def test_a_refusal_to_cancel_is_given_as_it_is(answer: Any) -> None:
    assert foreign.cancelled("own", Foreign(answer), order()) == answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Failed("x"), "jig own cannot cancel: it answered Failed, which is no outcome"),
        (Fenced("7"), "jig own cannot cancel: it answered Fenced with epoch=str"),  # type: ignore[arg-type]
        (ValueError("no licence"), "jig own cannot cancel: it raised ValueError: no licence"),
    ],
)
def test_an_odd_refusal_to_cancel_names_the_jig(answer: Any, said: str) -> None:
    assert foreign.cancelled("own", Foreign(answer), order()) == Odd(said)


def test_an_exception_of_a_jig_of_the_project_passes() -> None:
    own: Any = Own
    jig = object.__new__(own)
    with pytest.raises(KeyError):
        foreign.asked("own", jig, order(), STOP)
    with pytest.raises(KeyError):
        foreign.cancelled("own", jig, order())


def test_a_tail_without_a_file_becomes_the_log(tmp_path: Path) -> None:
    file = tmp_path / "n1" / "log"
    found = foreign.asked("own", Foreign(Failed("exit code 1", tail="a hidden word\n")), order(file), STOP)
    assert isinstance(found, Failed)
    assert (found.log, found.reason, found.tail) == (file, "exit code 1", "a hidden word\n")
    assert "hidden" not in file.read_text()
    assert "word" in file.read_text()


def test_a_file_that_the_jig_wrote_is_the_log_and_gives_the_tail(tmp_path: Path) -> None:
    file = tmp_path / "log"
    found = foreign.asked("own", Foreign(Succeeded({}), writes="its words\n"), order(file), STOP)
    assert isinstance(found, Succeeded)
    assert (found.log, found.tail) == (file, "its words\n")
    found = foreign.asked("own", Foreign(Succeeded({}, tail="other words")), order(file), STOP)
    assert isinstance(found, Succeeded)
    assert (found.log, found.tail) == (file, "other words")


@pytest.mark.parametrize("log", [False, True])
def test_an_outcome_with_nothing_to_keep_has_no_log(tmp_path: Path, log: bool) -> None:
    file = tmp_path / "log"
    outcome = Succeeded({}, tail="" if log else "words")
    assert foreign.asked("own", Foreign(outcome), order(file if log else None), STOP) == outcome
    assert not file.exists()


def test_the_traceback_stands_behind_the_output_without_secrets_and_within_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "n1" / "log"
    foreign.asked("own", Foreign(ValueError("the hidden word \udcff")), order(file), STOP)
    text = file.read_text()
    assert text.startswith("Traceback (most recent call last):")
    assert "hidden" not in text
    assert "word \\udcff" in text
    assert file.stat().st_mode & 0o777 == 0o600
    for _ in range(9):
        foreign.asked("own", Foreign(ValueError("again")), order(file, 2000), STOP)
    assert file.stat().st_size == 2000
    assert foreign.asked("own", Foreign(ValueError("x")), order(Path("/proc/none/log")), STOP) == Odd(
        "jig own raised ValueError: x"
    )
