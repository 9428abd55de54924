"""The parts of the demo's scenes: words, commands as a user types them, and waits for their effects."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

ROOT: Final = Path(__file__).parent.parent
COMMAND: Final = Path(sys.executable).with_name("nodepool-ocb")
PATIENCE_SECONDS: Final = 120.0
AT_ONCE: Final = 4  # commands
SEEN_SECONDS: Final = 2.0  # a watch may be behind by so much

States = Mapping[str, str]  # noderole → state


class Failed(Exception):
    """The demo cannot go on; the message says why."""


class Play:
    """Shows the actions of a scene on the console; ``built`` is the stage's description of itself."""

    def __init__(self, built: Mapping[str, Any], fast: bool, keep: bool) -> None:
        self.built, self.keep = built, keep
        self._fast = fast
        self._typed = False  # the last line was a command that answers nothing
        self._console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
        self._environment = os.environ | {"NODEPOOL_OCB_CONFIG": built["config"]}

    def title(self, text: str) -> None:
        self.pause(1.5)
        self._console.print(f"\n[bold]━━ {text} ━━[/bold]\n")

    def say(self, text: str) -> None:
        """A paragraph, with an empty line before and after it."""
        self._console.print(("\n" if self._typed else "") + escape(text) + "\n")
        self._typed = False
        self.pause(1.0)

    def answer(self, text: str) -> None:
        """The output that a command would have that was only typed."""
        self._typed = False
        self.say(text)

    def type(self, line: str) -> None:
        """A line as a user types it."""
        self._console.print(f"[bold cyan]$[/bold cyan] [bold]{escape(line)}[/bold]", soft_wrap=True)
        self._typed = True
        self.pause(0.5)

    def pause(self, seconds: float) -> None:
        if not self._fast:
            time.sleep(seconds)

    def run(self, words: str, expect: int = 0, quiet: bool = False) -> None:
        """Show a command, run it, show its answer; raises Failed where its exit status is another."""
        self.type(f"nodepool-ocb {words}")
        done = subprocess.run(
            [COMMAND, *shlex.split(words)], env=self._environment, capture_output=quiet, text=True, check=False
        )
        if done.returncode != expect:
            raise Failed(f"that exited with {done.returncode}: {done.stderr or ''}")
        if not quiet:
            self._console.print()
            self._typed = False

    def each(self, lines: Sequence[str]) -> None:
        """Commands of one kind, several at once: the first is shown, and how many there are; raises Failed."""
        self.type(f"nodepool-ocb {lines[0]}")
        self.answer(f"... and {len(lines) - 1} more like it.")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for done in pool.map(self._quietly, lines):
                if done.returncode != 0:
                    raise Failed(f"{shlex.join(done.args)} exited with {done.returncode}: {done.stderr}")

    def _quietly(self, words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *shlex.split(words)], env=self._environment, capture_output=True, text=True, check=False
        )

    def ask(self, *words: str) -> Any:
        """A command's answer as JSON; it is not shown."""
        done = self._quietly(shlex.join([*words, "-o", "json"]))
        if done.returncode != 0:
            raise Failed(f"nodepool-ocb {' '.join(words)} exited with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def states(self) -> States:
        return {each["noderole"]: each["state"] for each in self.ask("noderole", "list")}

    def watch(self, reached: Callable[[States], bool]) -> None:
        """Show all noderoles as they move, until they are as they should be; Failed where that takes too long."""
        self.type("nodepool-ocb status --watch")
        states, deadline = dict(self.states()), time.monotonic() + PATIENCE_SECONDS
        with self._shown("status", "--watch"), self._changes() as changes:
            begun = False  # both commands have begun when one of them has said something
            while not (begun and reached(states)):
                changed, begun = next(changes, None), True
                if changed is None or time.monotonic() > deadline:
                    raise Failed("it did not come to that; nodepool-ocb status would tell more")
                states[changed["noderole"]] = changed["state"]
            time.sleep(SEEN_SECONDS)
        self._console.print()
        self._typed = False

    @contextmanager
    def _shown(self, *words: str) -> Iterator[None]:
        """Show the output of a command until it is interrupted, as by Ctrl-C."""
        with subprocess.Popen([COMMAND, *words], env=self._environment) as process:
            try:
                yield
            finally:
                process.send_signal(signal.SIGINT)

    @contextmanager
    def _changes(self) -> Iterator[Iterator[dict[str, Any]]]:
        """The lines of ``noderole list --watch``, as they come."""
        with subprocess.Popen(
            [COMMAND, "noderole", "list", "--watch"], env=self._environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout
            try:
                yield map(json.loads, process.stdout)
            finally:
                process.terminate()
