"""A real terminal, tmux's, in which a test lets commands print; it can say whether anything acted on it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.testing.processes import await_that

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")

#: What an escape sequence may change without printing a letter.
STATE: Final = (
    "#{pane_title}|#{window_name}|#{alternate_on}|#{cursor_flag}|#{insert_flag}|#{keypad_cursor_flag}|#{keypad_flag}"
    "|#{mouse_any_flag}|#{origin_flag}|#{wrap_flag}|#{scroll_region_upper}-#{scroll_region_lower}|#{pane_tabs}|#{pane_path}"
)


class Screen:
    """One window of a tmux server of its own."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ("tmux", "-S", str(socket), "-f", "/dev/null")
        self._lines = 0

    def ask(self, *words: str) -> str:
        """What a command of tmux answers."""
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True).stdout

    def state(self) -> str:
        return self.ask("display-message", "-p", STATE).strip()

    def clipboard(self) -> str:
        """What was put there by OSC 52, if anything."""
        return self.ask("list-buffers")

    def text(self) -> str:
        """All that was printed, also what has left the screen."""
        return self.ask("capture-pane", "-p", "-J", "-S", "-")

    def runs(self, line: str) -> None:
        """Type a line, and wait until all that it prints has been taken in."""
        self._lines += 1
        self.ask("send-keys", "-l", f"{line}; echo the-''end-{self._lines}")
        self.ask("send-keys", "Enter")
        await_that(lambda: f"the-end-{self._lines}\n" in self.text(), 60.0, f"{line} has ended")


@contextmanager
def screen(folder: Path) -> Iterator[Screen]:
    made = Screen(folder / "tmux")
    made.ask("new-session", "-d", "-x", "200", "-y", "50", "env", "PS1=$ ", "sh")
    try:
        made.ask("set-option", "-g", "set-clipboard", "on")
        made.ask("set-option", "-g", "automatic-rename", "off")
        made.ask("set-option", "-g", "allow-rename", "on")
        made.ask("set-option", "-g", "history-limit", "100000")
        await_that(lambda: made.text().startswith("$"), 60.0, "the shell prompts")  # keys before it are echoed above it
        yield made
    finally:
        made.ask("kill-server")
