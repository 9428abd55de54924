"""One serial console that is read: its order, its log, and the newest known line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from nodepool_ocb.jigs.output import Output
from nodepool_ocb.power.driver import SerialConsole
from nodepool_ocb.provisioning.evidence import console as lines
from nodepool_ocb.telemetry.redaction import Mask

AGAIN_SECONDS: Final = 5.0  # from an end to the next try; doubles
COPIED_BYTES: Final = 1 << 20  # at a time


class CaptureOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A console to read. ``open`` blocks, and raises OcbError; its argument: end the session of an annealer that died."""

    name: str  # of the noderole
    open: Callable[[bool], SerialConsole]
    file: Path | None
    former: Path | None = None  # the log of the run that this one continues
    take: bool = False
    log_bytes: int
    mask: Mask


class Capture:
    """One console, its log, and the newest known line. ``guard`` is for the thread that reads and the one that ends it."""

    def __init__(self, order: CaptureOrder) -> None:
        self.order, self.guard = order, threading.Lock()
        self.output: Output | None = None
        self.console: SerialConsole | None = None
        self.over = self.said = False
        self.take = order.take
        self.next_try = self.opened = 0.0
        self.pause_seconds = AGAIN_SECONDS
        self.observed: str | None = None
        self.burst_began, self.burst = 0.0, 0
        self._line = ""

    def begin(self) -> None:
        """Open its log, with the bytes of the run that it continues."""
        order = self.order
        self.output = Output(order.file, order.log_bytes, order.mask)
        if order.former is None:
            return
        try:
            with order.former.open("rb") as before:
                while piece := before.read(COPIED_BYTES):
                    self.output.take(self.output.position, piece)
        except OSError:
            self.note(f"the lines before are in the log {order.former.name} of another annealer")

    def note(self, text: str) -> None:
        """A line of ours."""
        self.add(f"\n-- console: {text} --\n".encode())

    def add(self, data: bytes) -> None:
        """Bytes for the log."""
        with self.guard:
            if self.output is not None:
                self.output.take(self.output.position, data)

    def heard(self, data: bytes) -> bool:
        """Bytes of the machine; whether a known line is new."""
        self.add(data)
        text = self._line + data.decode("utf-8", "replace")
        *whole, self._line = text.replace("\r", "\n").split("\n")
        self._line = self._line[-lines.LONGEST_LINE :]
        found = [said for line in [*whole, self._line] if (said := lines.observed(line)) is not None]
        newest = self.order.mask.text(found[-1]) if found else self.observed
        changed, self.observed = newest != self.observed, newest
        return changed

    def end(self) -> tuple[str, Path | None]:
        """Close the log; gives its end, and its file if there is one."""
        with self.guard:
            self.over = True
            if self.output is None:
                return "", None
            self.output.__exit__(None, None, None)
            return self.output.tail, self.output.file
