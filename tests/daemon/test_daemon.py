"""A daemon's life, with real processes, real signals and a socket in systemd's place."""

from __future__ import annotations

import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.daemon import loop
from nodepool_ocb.http.server import WELL
from nodepool_ocb.testing.zookeeper.server import free_port

PATIENCE_SECONDS = 20.0
Start = Callable[..., "Running"]


class Running:
    """The turning daemon, what it said, and what it told systemd."""

    def __init__(self, oddity: str, folder: Path, **environment: str) -> None:
        self._systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._systemd.bind(str(folder / "notify"))
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("turning.py")), oddity],
            env=os.environ | {"NOTIFY_SOCKET": str(folder / "notify")} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._messages: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._readers = [threading.Thread(target=each) for each in (self._read, self._listen)]
        for reader in self._readers:
            reader.start()
        self.pages = re.search(r"http://\S+(?=/metrics)", self.said("serving "))

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)

    def _listen(self) -> None:
        """As systemd does: who does not read holds up the daemon after some messages."""
        while message := self._systemd.recv(4096):
            self._messages.put(message.decode())

    def said(self, words: str) -> str:
        """The next line with these words."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words not in (line := self._lines.get(timeout=deadline - time.monotonic())):
            pass
        return line

    def rest(self) -> list[str]:
        """All the lines that are left, when it has ended."""
        self.exit_status()
        self._readers[0].join()
        lines = []
        while not self._lines.empty():
            lines.append(self._lines.get())
        return lines

    def notified(self, word: str) -> str:
        """The next message to systemd with this word, however many others come before it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while word not in (message := self._messages.get(timeout=deadline - time.monotonic())):
            pass
        return message

    def told_nothing_for(self, seconds: float) -> bool:
        try:
            self._messages.get(timeout=seconds)
        except queue.Empty:
            return True
        return False

    def page(self, path: str) -> tuple[int, str]:
        assert self.pages
        try:
            with urllib.request.urlopen(self.pages[0] + path, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_status(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._systemd.getsockname())  # ends what listens
        for reader in self._readers:
            reader.join()
        assert self.process.stdout
        self.process.stdout.close()
        self._systemd.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Running] = []

    def start(oddity: str = "nothing odd", **environment: str) -> Running:
        started.append(Running(oddity, tmp_path, **environment))
        return started[-1]

    yield start
    for running in started:
        running.close()


def test_it_is_ready_once_its_first_turn_has_ended(start: Start) -> None:
    daemon = start()
    daemon.notified("READY=1")
    assert daemon.page("/health/ready") == (200, WELL["ready"])
    assert daemon.page("/health/live") == (200, WELL["live"])


def test_it_tells_its_address_before_the_first_turn_and_serves_its_own_pages_to_readers_alone(start: Start) -> None:
    daemon = start()
    assert daemon.pages
    assert f"http://{daemon.said('listening ').split()[1]}" == daemon.pages[0]
    daemon.said("turn")
    status, said = daemon.page("/echo/")
    assert (status, "over TLS" in said) == (403, True)


def test_a_turn_that_fails_is_tried_again_and_shown(start: Start) -> None:
    daemon = start("fails twice")
    assert "Traceback" in daemon.said("Traceback")
    status, sentence = daemon.page("/health/ready")
    assert (status, sentence) == (503, "the newest turn failed: ValueError: no luck\n")
    daemon.notified("READY=1")
    assert daemon.page("/health/ready") == (200, WELL["ready"])
    assert "nodepool_ocb_turn_failures_total 2.0" in daemon.page("/metrics")[1]


def test_of_turns_that_fail_others_are_told_from_the_third_on_in_the_same_words_until_one_ends_well(
    start: Start,
) -> None:
    daemon = start("fails often")
    notified = [daemon.said("told ").strip() for _ in range(4)]
    assert notified == [*["told its turns fail: ValueError: no luck 3"] * 3, "told None"]


def test_what_is_denied_to_its_first_turn_ends_it(start: Start) -> None:
    daemon = start("denied at once")
    assert "/ocb/roles" in daemon.said("Denied")
    assert daemon.exit_status() == 1  # this little daemon has no program() around it, which would make it 8


def test_what_is_denied_to_a_later_turn_is_said_without_a_traceback_and_tried_again(start: Start) -> None:
    daemon = start("denied later")
    daemon.notified("READY=1")
    assert daemon.said("turn failed").endswith("does not let this user read /ocb/roles\n")
    daemon.notified("READY=1")
    daemon.signal(signal.SIGTERM)
    assert "stopping" in daemon.said("")  # the very next line: nothing was between
    daemon.said("ended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(start: Start, number: signal.Signals) -> None:
    daemon = start()
    daemon.notified("READY=1")
    daemon.signal(number)
    daemon.notified("STOPPING=1")
    daemon.said("ended")
    assert daemon.exit_status() == 0


def test_turns_go_on_while_it_drains(start: Start) -> None:
    daemon = start("drains")
    daemon.said("turn")
    daemon.signal(signal.SIGTERM)
    daemon.said("stopping")
    daemon.said("turn")
    daemon.said("turn")
    daemon.said("ended")
    assert daemon.exit_status() == 0


def test_a_drain_that_never_ends_is_ended(start: Start) -> None:
    daemon = start("never drained")
    daemon.said("turn")
    daemon.signal(signal.SIGTERM)
    daemon.said("ending by force")
    assert daemon.exit_status() == 1


def test_hangups_that_keep_coming_put_no_end_off(start: Start) -> None:
    daemon = start("never drained")
    daemon.said("turn")
    daemon.signal(signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while daemon.process.poll() is None:
        assert time.monotonic() < deadline, "it still runs"
        daemon.signal(signal.SIGHUP)
        time.sleep(0.05)
    assert daemon.exit_status() == 1


def test_a_second_signal_ends_it_at_once(start: Start) -> None:
    daemon = start("never drained")
    daemon.said("turn")
    daemon.signal(signal.SIGTERM)
    daemon.said("stopping")
    daemon.signal(signal.SIGTERM)
    assert daemon.exit_status() == 1


@pytest.mark.parametrize("oddity", ["hangs", "cannot exit"])
def test_nothing_keeps_it_from_ending(start: Start, oddity: str) -> None:
    daemon = start(oddity)
    daemon.said("turn")
    daemon.signal(signal.SIGTERM)
    daemon.said("ending by force")
    assert daemon.exit_status() == 1


def test_a_hangup_reloads_between_two_turns(start: Start) -> None:
    daemon = start()
    daemon.notified("READY=1")
    daemon.signal(signal.SIGHUP)
    assert re.search(r"^MONOTONIC_USEC=\d+$", daemon.notified("RELOADING=1"), re.MULTILINE)
    daemon.notified("READY=1")
    daemon.said("reload")
    daemon.said("turn")


def test_a_bad_configuration_is_said_and_the_old_one_stays(start: Start) -> None:
    daemon = start("bad configuration")
    daemon.notified("READY=1")
    daemon.signal(signal.SIGHUP)
    daemon.notified("READY=1")
    assert "stays in use: nodepool-ocb.yaml:3" in daemon.said("stays")
    assert daemon.page("/health/ready") == (200, WELL["ready"])


def test_a_refused_configuration_is_shown_until_it_is_mended(start: Start) -> None:
    daemon = start("bad configuration")
    daemon.notified("READY=1")
    daemon.signal(signal.SIGHUP)
    shown = daemon.notified("stays in use")
    assert shown.startswith(
        "STATUS=nothing to do; the new configuration is refused, and the former one stays in use: nodepool-ocb.yaml:3"
    )


def test_what_needs_a_restart_is_named_and_not_called_reloaded(start: Start) -> None:
    daemon = start("needs a restart")
    daemon.notified("READY=1")
    daemon.signal(signal.SIGHUP)
    assert daemon.notified("restart") == "STATUS=nothing to do; needs a restart: zookeeper.hosts"
    assert daemon.said("applied")
    assert "reloaded" not in daemon.said("")
    daemon.signal(signal.SIGTERM)
    assert "reloaded" not in "".join(daemon.rest())


def test_a_reload_with_a_fault_of_ours_stops_nothing(start: Start) -> None:
    daemon = start("reload raises")
    daemon.notified("READY=1")
    daemon.signal(signal.SIGHUP)
    daemon.notified("RELOADING=1")
    daemon.notified("READY=1")
    assert "stays in use: no luck" in daemon.said("stays")
    assert daemon.page("/health/ready") == (200, WELL["ready"])


def test_a_reload_before_the_first_turn_does_not_call_it_ready(start: Start) -> None:
    daemon = start("fails twice")
    daemon.said("turn failed")
    daemon.signal(signal.SIGHUP)
    daemon.said("applied")
    messages = []
    while "READY=1" not in (message := daemon.notified("")):
        messages.append(message)
    assert daemon.page("/health/ready") == (200, WELL["ready"])
    assert "RELOADING" not in "".join(messages)


def test_the_pages_move_with_a_reload(start: Start) -> None:
    port = free_port()
    daemon = start(f"moves: 127.0.0.1:{port}")
    before = daemon.pages
    assert before
    daemon.notified("READY=1")
    daemon.signal(signal.SIGHUP)
    daemon.said(f"listening 127.0.0.1:{port}")
    daemon.said("applied")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=PATIENCE_SECONDS) as answer:
        assert answer.status == 200
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{before[0]}/health/ready", timeout=PATIENCE_SECONDS)


def test_a_port_that_is_taken_refuses_the_whole_reload(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        daemon = start(f"moves: 127.0.0.1:{other.getsockname()[1]}")
        daemon.notified("READY=1")
        daemon.signal(signal.SIGHUP)
        daemon.said("reload")
        refused = daemon.said("")  # the very next line: nothing was applied before
        assert "stays in use" in refused
        assert "give each daemon of this host a port of its own" in refused
        assert daemon.page("/health/ready") == (200, WELL["ready"])
        daemon.signal(signal.SIGTERM)
        assert "applied" not in "".join(daemon.rest())


def test_systemd_shows_what_it_does_and_what_is_wrong(start: Start) -> None:
    daemon = start("fails twice")
    assert daemon.notified("STATUS=") == "STATUS=the newest turn failed: ValueError: no luck"
    daemon.notified("READY=1")
    assert daemon.notified("STATUS=") == "STATUS=nothing to do"
    assert daemon.told_nothing_for(1.5)


def test_what_changes_all_the_time_is_shown_once_a_second(start: Start) -> None:
    daemon = start("busy")
    daemon.notified("STATUS=")
    began = time.monotonic()
    for _ in range(3):
        daemon.notified("STATUS=")
    assert time.monotonic() - began > 1.0  # at once without the pause; 3 s, but for a late reader


def test_systemd_gives_it_the_time_that_it_waits_for_its_name(start: Start) -> None:
    daemon = start("taken")
    assert daemon.notified("EXTEND") == "EXTEND_TIMEOUT_USEC=305000000"
    assert daemon.notified("STATUS=") == "STATUS=another has our name"


def test_systemd_gives_it_the_time_that_it_takes_to_end(start: Start) -> None:
    daemon = start()
    daemon.notified("READY=1")
    daemon.signal(signal.SIGTERM)
    assert daemon.notified("STOPPING=1") == "STOPPING=1\nEXTEND_TIMEOUT_USEC=6000000"


def test_the_watchdog_is_fed_while_turns_come(start: Start) -> None:
    daemon = start(WATCHDOG_USEC="400000")
    daemon.notified("READY=1")
    for _ in range(4):
        daemon.notified("WATCHDOG=1")
    assert daemon.page("/health/live")[0] == 200


def test_systemd_is_told_that_the_loop_moves_once_a_second_however_many_turns_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[float] = []
    now = 100.0
    monkeypatch.setattr(loop.systemd, "notify", lambda *_: sent.append(now))
    monkeypatch.setattr(loop.time, "monotonic", lambda: now)
    heart = loop._Heart()
    for turn in range(3000):
        now = 100.0 + turn / 1000
        heart.beat()
        assert heart.trouble() is None
    assert sent == [100.0, 101.0, 102.0]
    heart.stuck_seconds = 2.0  # a watchdog of two seconds is sent twenty times in them
    for turn in range(1000):
        now = 110.0 + turn / 1000
        heart.beat()
    assert len(sent[3:]) == 10


def test_the_watchdog_starves_when_a_turn_hangs(start: Start) -> None:
    daemon = start("hangs", WATCHDOG_USEC="400000")
    daemon.notified("WATCHDOG=1")
    assert daemon.told_nothing_for(0.8)
    status, sentence = daemon.page("/health/live")
    assert status == 503
    assert sentence.startswith("the turn has hung for")


def test_another_process_s_watchdog_is_left_alone(start: Start) -> None:
    daemon = start("hangs", WATCHDOG_USEC="1000", WATCHDOG_PID="1")
    daemon.said("turn")
    assert daemon.page("/health/live") == (200, WELL["live"])


def test_an_unknown_page_names_those_that_exist(start: Start) -> None:
    assert start().page("/") == (404, "/metrics\n/health/live\n/health/ready\n/echo/\n")
