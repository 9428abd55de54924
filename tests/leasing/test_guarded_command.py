"""COMMAND below its guardian: real processes that end, hide, refuse to end and are killed."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nodepool_ocb.leasing.command import CommandRefused, GuardedCommand, LeaseHeartbeat
from nodepool_ocb.leasing.guardian import descendants

FAR = 3600.0


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _command(script: str, directory: Path | None = None, margin_seconds: float = 0.5) -> GuardedCommand:
    return GuardedCommand(["sh", "-c", script], os.environ, directory, margin_seconds)


def _awaited(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _ended(command: GuardedCommand, seconds: float = 15.0) -> int:
    deadline = time.monotonic() + seconds
    while (code := command.wait(0.1)) is None:
        assert time.monotonic() < deadline, "the command does not end"
    return code


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 42", 42), ("kill -9 $$", 137), ("kill -15 $$", 143)]
)
def test_the_exit_code_passes_through(script: str, code: int) -> None:
    with _command(script) as command:
        assert command.start(_now() + FAR) is None
        assert _ended(command) == code
        assert not command.late


def test_a_command_that_cannot_be_executed_is_refused(tmp_path: Path) -> None:
    with GuardedCommand(["/no/such/program"], os.environ, None, 1.0) as command:
        assert command.start(_now() + FAR) == CommandRefused(True, "No such file or directory")
    (tmp_path / "text").write_text("no program")
    with GuardedCommand([str(tmp_path / "text")], os.environ, None, 1.0) as command:
        assert command.start(_now() + FAR) == CommandRefused(False, "Permission denied")


def test_the_directory_is_removed_at_the_end(tmp_path: Path) -> None:
    place = tmp_path / "lease"
    place.mkdir()
    (place / "id_ed25519").write_text("secret")
    with _command("exit 3", place) as command:
        command.start(_now() + FAR)
        _ended(command)
    assert not place.exists()


def test_processes_that_left_the_group_are_ended_with_the_command(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with _command(
        f"setsid sh -c 'trap \"\" TERM; echo $$ > {pids}; while :; do sleep 1; done' & sleep 0.3; exit 5"
    ) as command:
        command._order["grace_seconds"] = 0.5
        command.start(_now() + FAR)
        assert _ended(command) == 5
        assert command.left == 0
    assert not _alive(int(pids.read_text()))


def test_a_command_that_ignores_sigterm_is_killed() -> None:
    with _command("trap '' TERM; while :; do sleep 0.1; done") as command:
        command._order["grace_seconds"] = 0.3
        command.start(_now() + FAR)
        command.wait(0.3)
        command.end()
        assert _ended(command) == 137


def test_without_a_beat_the_command_is_ended_soon_after_the_time() -> None:
    with _command("trap '' TERM; while :; do sleep 0.1; done", margin_seconds=0.3) as command:
        began = time.monotonic()
        command.start(_now() + 2.0)
        assert _ended(command) == 137
        assert command.late
        assert time.monotonic() - began < 8.0


def test_a_beat_lets_it_go_on() -> None:
    with _command("sleep 3; exit 7") as command:
        command.start(_now() + 2.5)
        while command.wait(0.1) is None:
            command.beat(_now() + 2.5)
        assert (command.code, command.late) == (7, False)


def test_an_interrupt_goes_to_the_command() -> None:
    with _command("trap 'exit 9' INT; while :; do sleep 0.1; done") as command:
        command.start(_now() + FAR)
        command.wait(0.3)
        command.signal(signal.SIGINT)
        assert _ended(command) == 9


CALLER = """
import os, sys, time
from nodepool_ocb.leasing.command import GuardedCommand
script, pids = sys.argv[1:]
with GuardedCommand(["sh", "-c", script], os.environ, None, 1.0) as command:
    command.start(time.clock_gettime(time.CLOCK_BOOTTIME) + 3600)
    print(os.getpid(), flush=True)
    while command.wait(1) is None: pass
    print(command.code, command.left)
"""


@pytest.fixture
def caller(tmp_path: Path) -> object:
    started: list[subprocess.Popen[str]] = []

    def start(script: str) -> subprocess.Popen[str]:
        program = [sys.executable, "-c", CALLER, script, str(tmp_path)]
        started.append(subprocess.Popen(program, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


#: $BASHPID is replaced by the id of the shell that runs the words.
SCRIPT = "echo $$ > {0}/leader; (trap '' TERM; echo $BASHPID > {0}/child; exec setsid sleep 1000) & wait"


def _pids(tmp_path: Path) -> list[int]:
    files = [tmp_path / "leader", tmp_path / "child"]
    _awaited(lambda: all(file.exists() and file.read_text().strip() for file in files))
    return [int(file.read_text()) for file in files]


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_the_command_and_its_children_end_when_the_caller_is_killed(
    caller: Callable[[str], subprocess.Popen[str]], tmp_path: Path, number: int
) -> None:
    process = caller(SCRIPT.format(tmp_path).replace("$BASHPID", "$(exec sh -c 'echo $PPID')"))
    pids = _pids(tmp_path)
    process.send_signal(number)
    _awaited(lambda: not any(map(_alive, pids)), 15.0)


def test_the_command_and_its_children_end_when_the_guardian_is_killed(
    caller: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = caller(SCRIPT.format(tmp_path).replace("$BASHPID", "$(exec sh -c 'echo $PPID')"))
    pids = _pids(tmp_path)
    guardian = next(pid for pid in descendants(process.pid) if b"guardian" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(guardian, signal.SIGKILL)
    _awaited(lambda: not any(map(_alive, pids)), 15.0)
    assert process.stdout is not None
    process.stdout.readline()
    assert process.stdout.readline() == "137 0\n"


def test_a_heartbeat_is_older_than_the_answer_by_its_silence() -> None:
    heartbeat = LeaseHeartbeat(9.0)
    until = heartbeat.until(2.0)
    assert until is not None
    assert until == pytest.approx(_now() + 4.0, abs=0.2)
    assert heartbeat.margin_seconds == 1.5


def test_after_a_sleep_of_the_host_older_answers_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {"monotonic": 100.0, "boot": 100.0}
    monkeypatch.setattr(time, "monotonic", lambda: clocks["monotonic"])
    monkeypatch.setattr(time, "clock_gettime", lambda _: clocks["boot"])
    heartbeat = LeaseHeartbeat(9.0)
    assert heartbeat.until(1.0) == 105.0
    clocks["boot"] += 60  # it slept a minute
    assert heartbeat.until(1.0) is None
    clocks["monotonic"] += 2
    clocks["boot"] += 2
    assert heartbeat.until(3.0) is None
    assert heartbeat.until(1.0) == 167.0


@pytest.mark.parametrize(
    ("script", "typed", "printed"),
    [
        ("echo on; read word; echo got $word", b"hello\n", b"got hello\r\n0 0"),
        ("trap 'exit 9' INT; echo on; while :; do sleep 0.1; done", b"\x03", b"9 0"),
        ("echo on; sleep 2; echo done", b"\x1a", b"done\r\n0 0"),  # no shell could continue it, so it is not stopped
    ],
    ids=["input", "interrupt", "stop"],
)
def test_a_command_on_a_terminal_gets_its_keys(tmp_path: Path, script: str, typed: bytes, printed: bytes) -> None:
    assert printed in on_a_terminal(tmp_path, script, typed, printed, begun)


def test_a_shell_that_cannot_stop_before_its_exec_does_not_hang(tmp_path: Path) -> None:
    """The key comes while the shell waits in vfork for its child, in about one of three tries."""

    def once(_number: int) -> bytes:
        return on_a_terminal(
            tmp_path, "echo on; sleep 0.2; echo done", b"\x1a", b"done", lambda said: b"on\r\n" in said
        )

    with ThreadPoolExecutor(4) as tries:
        assert all(b"done" in said for said in tries.map(once, range(12)))


def on_a_terminal(folder: Path, script: str, typed: bytes, printed: bytes, ready: Callable[[bytes], bool]) -> bytes:
    """The output of a command with a terminal; the keys are typed as soon as the output so far is ``ready``."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", f"{TERMINAL}\n{CALLER}", script, str(folder)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said, deadline = b"", time.monotonic() + 20.0
    while printed not in said and time.monotonic() < deadline:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                before, said = said, said + os.read(ours, 4096)
            except OSError:  # all of them have closed it
                break
            if ready(said) and not ready(before):
                os.write(ours, typed)
    process.kill()
    process.wait()
    os.close(ours)
    return said


def begun(said: bytes) -> bool:
    """Whether the command has printed its word, and the caller its id. The word may come between the id and its line end."""
    return b"on\r\n" in said and re.search(rb"\d", said) is not None and said.count(b"\r\n") > 1


#: The terminal on stdin becomes that of the new session.
TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
