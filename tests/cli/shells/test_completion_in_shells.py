"""Completion in real shells, against a real ZooKeeper: words that hold ``@``, ``:`` and ``=`` come out whole.

A shell runs on a terminal of its own; what it completes calls our command, and what it then runs writes its words down.
"""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store.client.session import Session
from tests.fixtures.commands import Ocb

N1 = "n1.example.com"
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}

BACK, LAST = "\x02", "\x05"  # by a letter, and to the end of the line

#: What is typed, with a tab where it is to be completed → the words that the command is run with.
LINES = {
    "noderole show middle@n\t": f"noderole show middle@{N1}",
    f"noderole set middle@{N1} middle-s\t7": f"noderole set middle@{N1} middle-size=7",
    "node list --tag=w\t": "node list --tag=web",
    f"noderole show middle@n -q{3 * BACK}\t{LAST}": f"noderole show middle@{N1} -q",
}
OF_BASH = {
    "noderole show mid\t": f"noderole show middle@{N1}",
    "noderole show middle@\t": f"noderole show middle@{N1}",
    "noderole show 'middle@n1\t": f"noderole show middle@{N1}",
    "node list --label=room=\t": "node list --label=room=1",
}

PROGRAM = """\
#!/bin/sh
[ -z "$_NODEPOOL_OCB_COMPLETE" ] || exec {real} "$@"
printf '%s\\n' "$*" >> {written}
"""

Run = Callable[[str], str]


class Shell:
    """A shell on a terminal of its own, which reads what is typed."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path) -> None:
        self.shown = b""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._terminal, 4096):
                self.shown += data
                if b"\x1b[c" in data or b"\x1b[0c" in data:  # fish asks what the terminal is
                    os.write(self._terminal, b"\x1b[?62;c")

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)


@pytest.fixture(params=SHELLS)
def typed(
    request: pytest.FixtureRequest,
    world: Session,
    ocb: Ocb,
    zk_settings: ZooKeeperSettings,
    tmp_path: Path,
    until: Callable[..., None],
) -> Iterator[Run]:
    """Type into a shell that completes: gives the words that our command was then run with."""
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} here")
    assert world.connected
    program, written, script = tmp_path / "nodepool-ocb", tmp_path / "written", tmp_path / "script"
    program.write_text(PROGRAM.format(real=Path(sys.prefix, "bin", "nodepool-ocb"), written=written))
    program.chmod(0o755)
    script.write_text(ocb("completion", name).stdout)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "xterm", "LC_ALL": "C.UTF-8",
        "NODEPOOL_OCB_ZOOKEEPER": zk_settings.hosts,
    }  # fmt: skip
    shell = Shell(SHELLS[name], environment, tmp_path)
    lines: list[str] = []

    def run(line: str) -> str:
        shell.type(f"nodepool-ocb {line}\r")
        until(lambda: written.exists() and len(written.read_text().splitlines()) > len(lines), 60)
        lines[:] = written.read_text().splitlines()
        return lines[-1]

    try:
        if name == "zsh":
            shell.type("autoload -U compinit && compinit -u -D\r")
        shell.type(f"source {script}\r")
        assert run("ready") == "ready"
        yield run
    finally:
        shell.end()
        print(shell.shown.decode(errors="replace")[-4000:])


@pytest.mark.long
def test_names_are_completed_as_they_are(typed: Run, request: pytest.FixtureRequest) -> None:
    lines = LINES | (OF_BASH if request.node.callspec.params["typed"] == "bash" else {})
    assert {line: typed(line) for line in lines} == lines
