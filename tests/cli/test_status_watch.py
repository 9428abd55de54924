"""``status --watch`` on a terminal, in a pipe and as JSON, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from nodepool_ocb.cli.pictures import matrix
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.views.pictures.matrix import Matrix, Moved
from tests.cli.background_command import COMMAND, begun
from tests.fixtures.commands import Ocb

BASE = "base@n1.example.com"


class Watching:
    """The command on a terminal of its own."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process, self.terminal = process, terminal
        self.drawn = self.raw = b""

    def until(self, words: str) -> str:
        """What is drawn after what was seen, up to these words; then all of that was seen."""
        deadline = time.monotonic() + 30
        while words not in self.text:
            assert time.monotonic() < deadline, self.text
            self.read()
        seen, self.raw, self.drawn = self.text, self.drawn, b""
        return seen

    def read(self) -> None:
        """What has come within a second."""
        if select.select([self.terminal], [], [], 1.0)[0]:
            self.drawn += os.read(self.terminal, 4096)

    def end(self) -> str:
        """Interrupt it; gives what it leaves."""
        self.process.send_signal(signal.SIGINT)
        try:
            while chunk := os.read(self.terminal, 4096):
                self.drawn += chunk
        except OSError:  # its other side is closed
            pass
        self.process.wait(20)
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.drawn.decode().rpartition("\x1b[?1049l")[2])

    @property
    def text(self) -> str:
        """The characters drawn. A picture ends without a line feed, and the next one begins with the cursor's way home."""
        placed = re.sub(r"\x1b\[[0-9;]*H", "\n", self.drawn.decode(errors="ignore"))
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", placed)


@contextmanager
def watching(hosts: str, width: int, height: int, *words: str, **environment: str) -> Iterator[Watching]:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (height, width))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = [*COMMAND, "--zookeeper", hosts, *words]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=env | {"TERM": "xterm"} | environment
    ) as process:
        os.close(theirs)
        try:
            yield Watching(process, ours)
        finally:
            process.kill()
            os.close(ours)


def test_in_a_pipe_many_failures_are_counted_and_what_stays_the_same_is_said_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Matrix()
    failed = [Moved(noderole=f"r@n{number}", state=State.ERROR, reason="disk full") for number in range(12)]
    monkeypatch.setattr(matrix, "followed", lambda *_: iter([(shown, failed), (shown, []), (shown, [])]))
    matrix._sentences(None)  # type: ignore[arg-type]
    lines = capsys.readouterr().out.splitlines()
    assert lines[9:] == ["r@n9 ERROR: disk full", "... and 2 more in ERROR", "no noderoles"]


def test_on_a_terminal_it_follows_states_and_sizes_and_leaves_the_last_picture(
    world: Session, becomes: Callable[..., None], zk_settings: ZooKeeperSettings
) -> None:
    assert world.connected
    with watching(zk_settings.hosts, 80, 24, "status", "--watch", "--deployment", "lab") as seen:
        seen.until("n1.example.com  PROPOSED")
        becomes(BASE, State.ERROR, reason="disk full")
        seen.until("1 ERROR")
        termios.tcsetwinsize(seen.terminal, (8, 30))
        assert max(map(len, seen.until("P PROPOSED").splitlines())) <= 80
        left = seen.end().splitlines()
    assert seen.process.returncode == 130
    assert left[0] == "1 node, 3 roles, 3 noderoles:"
    assert max(map(len, left)) <= 30, left
    assert left[-1] == "E ERROR  P PROPOSED"
    assert "Traceback" not in "".join(left)


def test_no_color_takes_the_colours_and_leaves_the_words(
    world: Session, becomes: Callable[..., None], zk_settings: ZooKeeperSettings
) -> None:
    assert world.connected
    becomes(BASE, State.ERROR)
    with watching(zk_settings.hosts, 80, 24, "status", "--watch", NO_COLOR="1") as seen:
        seen.until("1 ERROR")
        assert not re.search(rb"\x1b\[[0-9;]*3[0-9]m", seen.raw)
        seen.end()


def test_in_a_pipe_it_prints_a_line_when_something_is_new_and_as_json_an_object(
    world: Session, becomes: Callable[..., None], zk_settings: ZooKeeperSettings
) -> None:
    assert world.connected
    with (
        begun(zk_settings.hosts, "status", "--watch") as (lines, said, _),
        begun(zk_settings.hosts, "status", "--watch", "-o", "json") as (objects, printed, _),
    ):
        assert said.readline() == "1 node, 3 roles, 3 noderoles: 3 PROPOSED\n"
        first = json.loads(printed.readline())
        becomes(BASE, State.ERROR, reason="disk full")
        assert said.readline() == f"{BASE} ERROR: disk full\n"
        assert said.readline() == "1 node, 3 roles, 3 noderoles: 1 ERROR, 2 PROPOSED\n"
        then = json.loads(printed.readline())
        for process in (lines, objects):
            process.send_signal(signal.SIGINT)
    assert (lines.returncode, objects.returncode) == (130, 130)
    assert (first["nodes"], first["noderoles"]["PROPOSED"], len(first["changed"])) == (1, 3, 3)
    assert then["changed"] == [{"noderole": BASE, "state": "ERROR", "reason": "disk full"}]


def test_a_selector_is_asked_again_with_every_change(
    world: Session, becomes: Callable[..., None], zk_settings: ZooKeeperSettings
) -> None:
    assert world.connected
    with watching(zk_settings.hosts, 80, 24, "status", "--watch", "-l", "state:ERROR") as seen:
        seen.until("no noderoles")
        becomes(BASE, State.ERROR)
        seen.until("1 node, 1 role, 1 noderole: 1 ERROR")
        becomes(BASE, State.TODO)
        seen.until("no noderoles")
        seen.end()


@pytest.mark.usefixtures("world")
def test_options_that_contradict_watch_are_refused(ocb: Ocb) -> None:
    assert ocb("status", "--deployment", "lab").exit_code == 2
    assert ocb("status", "--watch", "-o", "yaml").exit_code == 2
    assert ocb("status", "--watch", "--deployment", "lap").exit_code == 3
