"""The reader of consoles: its log, its limits, and the threads that it takes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.power import FaultKind, PowerFault
from nodepool_ocb.power.consoles import LEAVE_SECONDS, ProgramConsole, SocketConsole
from nodepool_ocb.power.driver import SerialConsole
from nodepool_ocb.telemetry.redaction import Mask
from nodepool_ocb.testing.bmcs import SerialLine
from nodepool_ocb_annealer.consoles import captures, reading
from nodepool_ocb_annealer.consoles.captures import CaptureOrder
from nodepool_ocb_annealer.consoles.reading import Consoles

SECONDS = 30.0


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Reading:
    """Consoles, at most two of them open, and their logs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.news = folder, []  # type: tuple[Path, list[str]]
        self.consoles = Consoles(lambda: 2, self.news.append)

    def begin(self, fqdn: str, open: Callable[[bool], SerialConsole], **own: Any) -> None:
        order = CaptureOrder(
            name=f"os@{fqdn}", open=open, **({"file": self.file(fqdn), "log_bytes": 1 << 20, "mask": Mask()} | own)
        )
        self.consoles.begin(fqdn, order)

    def file(self, fqdn: str) -> Path:
        return self.folder / f"{fqdn}.log"

    def said(self, fqdn: str) -> str:
        file = self.file(fqdn)
        return file.read_text() if file.exists() else ""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    monkeypatch.setattr(captures, "AGAIN_SECONDS", 0.1)
    monkeypatch.setattr(reading, "AGAIN_SECONDS", 0.1)
    made = Reading(tmp_path)
    yield made
    made.consoles.close()


@pytest.fixture
def line() -> Iterator[SerialLine]:
    line = SerialLine()
    yield line
    line.close()


def at(line: SerialLine) -> Callable[[bool], SerialConsole]:
    return lambda _: SocketConsole(f"127.0.0.1:{line.port}")


def test_a_panic_is_observed_and_the_secrets_of_the_boot_are_hidden(made: Reading, line: SerialLine) -> None:
    made.begin("n1", at(line), mask=Mask(frozenset({"ocb_secret_of_the_boot"})))
    until(lambda: line.readers, "it is opened")
    line.say("\x1b[0m[ 0.1] Command line: ocb.boot=ocb_secret_")
    line.say("of_the_boot quiet\r\n[ 2.0] Kernel panic - not syn")
    until(lambda: "not syn" in made.said("n1"), "the first half is read")
    assert made.consoles.observed("n1") is None
    line.say("cing: VFS: ocb_secret_of_the_boot\r\n---[ end Kernel panic - not syncing ]---\r\n")
    until(lambda: made.consoles.observed("n1"), "it is observed")
    until(lambda: "]---" in made.said("n1"), "all is read")
    assert made.consoles.observed("n1") == 'its kernel panicked: "Kernel panic - not syncing: VFS: (secret)"'
    assert made.news[0] == "n1"
    made.consoles.fresh("n1")
    assert made.consoles.observed("n1") is None
    tail, file = made.consoles.end("n1")
    assert "ocb.boot=(secret) quiet" in made.said("n1")
    assert "ocb_secret" not in made.said("n1") + tail
    assert file == made.file("n1")


def test_few_threads_read_many_consoles_and_others_wait_for_a_place(made: Reading, line: SerialLine) -> None:
    before = threading.active_count()
    for number in range(40):
        made.begin(f"n{number}", at(line))
    until(lambda: sum("other consoles are open" in made.said(f"n{each}") for each in range(40)) == 38, "38 wait")
    assert line.readers == 2
    assert threading.active_count() - before <= reading.OPENERS + 1
    (first, *_) = [each for each in range(40) if "other consoles" not in made.said(f"n{each}")]
    made.consoles.end(f"n{first}")
    until(lambda: line.readers == 3, "one of those that wait has the place")


def test_a_console_that_cannot_be_opened_is_a_note_and_is_tried_again(made: Reading, line: SerialLine) -> None:
    tries: list[bool] = []

    def open(take: bool) -> SerialConsole:
        tries.append(take)
        if len(tries) < 3:
            raise PowerFault(FaultKind.UNREACHABLE, "bmc9 does not answer")
        return SocketConsole(f"127.0.0.1:{line.port}")

    made.begin("n1", open, take=True)
    until(lambda: line.readers, "it is opened at last")
    line.say("hello\n")
    until(lambda: "hello" in made.said("n1"), "it is read")
    assert made.said("n1").count("it cannot be opened: bmc9 does not answer") == 2
    assert tries == [True, False, False], "the session of another reader is ended once"
    line.hang_up()
    until(lambda: line.readers, "after its end it is opened again")


def test_a_login_that_is_refused_is_not_tried_again(made: Reading) -> None:
    tries: list[bool] = []

    class Refusing(SocketConsole):
        refused = True

    def open(take: bool) -> SerialConsole:
        tries.append(take)
        line = SerialLine()
        console = Refusing(f"127.0.0.1:{line.port}")
        assert line.readers
        line.close()
        return console

    made.begin("n1", open)
    until(lambda: "refuses the login" in made.said("n1"), "it says so")
    made.begin("n2", open)
    until(lambda: "refuses the login" in made.said("n2"), "a moment later")
    assert len(tries) == 2


def test_a_run_that_is_continued_begins_with_the_lines_of_the_former_one(made: Reading, line: SerialLine) -> None:
    former = made.folder / "former.log"
    former.write_text("booting\nKernel panic - not syncing: of before\n")
    made.begin("n1", at(line), former=former)
    made.begin("n2", at(line), former=made.folder / "absent.log")
    until(lambda: line.readers == 2, "both are open")
    line.say("again\n")
    until(lambda: "again" in made.said("n1") and "again" in made.said("n2"), "both are read")
    assert made.said("n1") == "booting\nKernel panic - not syncing: of before\nagain\n"
    assert "absent.log of another annealer" in made.said("n2")
    assert made.consoles.observed("n1") is None, "that was seen by the former annealer"


@pytest.mark.parametrize("burst_seconds", [3600.0, 0.3])
def test_a_machine_that_says_too_much_is_read_later(
    made: Reading, line: SerialLine, monkeypatch: pytest.MonkeyPatch, burst_seconds: float
) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 1000)
    monkeypatch.setattr(reading, "BURST_SECONDS", burst_seconds)
    made.begin("n1", at(line), log_bytes=60_000)
    until(lambda: line.readers, "it is open")
    line.say("x" * 70_000)
    until(lambda: len(made.said("n1")) > 900, "it is read")
    quiet = SerialLine()
    made.begin("n2", at(quiet))
    until(lambda: quiet.readers, "the other is open")
    quiet.say("hello\n")
    until(lambda: "hello" in made.said("n2"), "the other is read")
    if burst_seconds > 1.0:
        assert len(made.said("n1")) < 60_000
    else:
        until(lambda: "cut here" in made.said("n1"), "the rest is read later, as far as the log has room")
    quiet.close()


def test_the_time_between_two_tries_grows(made: Reading) -> None:
    tries: list[float] = []

    def open(_: bool) -> SerialConsole:
        tries.append(time.monotonic())
        raise PowerFault(FaultKind.UNREACHABLE, "bmc9 does not answer")

    made.begin("n1", open)
    until(lambda: len(tries) == 5, "it is tried again and again")
    assert tries[4] - tries[3] > 0.5, "0.1 s, 0.2 s, 0.4 s, 0.8 s"


def test_without_a_console_no_descriptor_is_taken() -> None:
    before = len(os.listdir("/proc/self/fd"))
    idle = [Consoles(lambda: 1, str) for _ in range(50)]
    assert len(os.listdir("/proc/self/fd")) < before + len(idle)
    for each in idle:
        each.close()


def test_consoles_that_end_slowly_stop_the_reading_of_no_other_one(made: Reading, line: SerialLine) -> None:
    """A program may hang when it gives its session back."""
    go_on, left = threading.Event(), list[str]()

    class Hanging(SocketConsole):
        def leave(self) -> None:
            left.append("left")

        def close(self) -> None:
            go_on.wait(SECONDS)
            super().close()

    slow = [SerialLine(), SerialLine()]
    for number, each in enumerate(slow):
        made.begin(f"slow{number}", lambda _, port=each.port: Hanging(f"127.0.0.1:{port}"))  # type: ignore[misc]
    until(lambda: all(each.readers for each in slow), "they are open")
    made.consoles.end("slow0")
    slow[1].hang_up()
    made.begin("n1", at(line))
    until(lambda: line.readers, "the other is opened")
    line.say("hello\n")
    until(lambda: "hello" in made.said("n1"), "the other is read")
    assert left == ["left", "left"]
    assert not go_on.is_set()
    opened = threading.Event()

    def open(_: bool) -> SerialConsole:
        opened.set()
        return SocketConsole(f"127.0.0.1:{line.port}")

    made.consoles.end("n1")
    made.begin("slow0", open)
    assert not opened.wait(0.5), "a BMC has one session, and its former one is being ended"
    go_on.set()
    assert opened.wait(SECONDS), "the next one is opened after that"
    for each in slow:
        each.close()


def test_a_console_that_is_opened_after_the_end_of_the_reader_is_closed(made: Reading, line: SerialLine) -> None:
    asked, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    class Late(SocketConsole):
        def close(self) -> None:
            super().close()
            closed.set()

    def open(_: bool) -> SerialConsole:
        asked.set()
        go_on.wait(SECONDS)
        return Late(f"127.0.0.1:{line.port}")

    made.begin("n1", open)
    assert asked.wait(SECONDS)
    made.consoles.close()
    go_on.set()
    assert closed.wait(SECONDS), "a BMC has few sessions, and this one would be lost"


def test_a_program_that_hangs_has_one_time_to_end_from_its_leave_on() -> None:
    hung = [
        ProgramConsole(("sh", "-c", "trap '' HUP; exec sleep 60"), {"PATH": os.environ["PATH"]}, leave=b"~.", login=())
        for _ in range(5)
    ]
    began = time.monotonic()
    for each in hung:
        each.leave()
    for each in hung:
        each.close()
    assert time.monotonic() - began < 4 * LEAVE_SECONDS, "not one time for each"
