"""How far a wait is, told on stderr: a picture that changes on a terminal, elsewhere a line whenever it moved.

The longer a wait lasts, the rarer are its lines, so that they stay few.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.live import Live, lively
from nodepool_ocb.views.pictures.tally import Tally, bar, sentence

TICK_SECONDS: Final = 1.0  # the time that is shown goes on
LINE_SECONDS: Final = 1.0  # between two lines, at first
SHARE: Final = 20  # a wait's lines are apart by this part of how long it has lasted
BAR: Final = 24  # its width


class LiveProgress:
    """A context manager: its picture on a terminal is removed at the end."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._begun = time.monotonic()
        self._live: Live | None = None
        self._last: Tally | None = None
        self._at: float | None = None
        self._noted: set[str] = set()

    def __enter__(self) -> LiveProgress:
        self._live = self._stack.enter_context(Live(sys.stderr)) if lively(sys.stderr) else None
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def width(self) -> int | None:
        """The width of the terminal with the picture; None without a picture."""
        return self._live.width if self._live else None

    @property
    def seconds(self) -> float:
        """The seconds since the wait began."""
        return time.monotonic() - self._begun

    def tell(self, tally: Tally, *parts: Any) -> None:
        """How far it is; ``parts``, tables and texts, stand below it in a picture."""
        line = sentence(tally, self.seconds)
        if self._live is not None:
            drawn = f"{bar(tally.done, tally.all, BAR)} {line}" if tally.counts else line
            self._live.show(drawn, *parts)
        elif tally != self._last and self._due():
            self._last, self._at = tally, time.monotonic()
            output.say(line)

    def note(self, sentences: Iterable[str]) -> None:
        """A sentence that stays visible; each is printed once."""
        for each in sentences:
            if each not in self._noted:
                self._noted.add(each)
                output.say(each)

    def _due(self) -> bool:
        return self._at is None or time.monotonic() - self._at >= max(LINE_SECONDS, self.seconds / SHARE)


@contextmanager
def going_on(work: str, command: Callable[[], str]) -> Iterator[None]:
    """An interrupt prints that the ``work`` goes on, and the ``command`` that shows it."""
    try:
        yield
    except KeyboardInterrupt:
        output.say(f"interrupted: {work} goes on; to look again: nodepool-ocb {command()}")
        raise
