"""The serial consoles of the machines that this annealer installs: the log of each such run, and the newest known line.

One thread reads all consoles, and a few open and close them. So the number of threads does not grow with the machines, and at
most ``annealer.consoles`` are open; the others wait. A console that cannot be opened is a note in the log. It changes no run.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nodepool_ocb.daemon.workers import WorkerQueue
from nodepool_ocb.errors import OcbError, reason_of
from nodepool_ocb.power.driver import SerialConsole
from nodepool_ocb_annealer.consoles.captures import AGAIN_SECONDS, Capture, CaptureOrder

log = logging.getLogger(__name__)

OPENERS: Final = 4
LONGEST_PAUSE_SECONDS: Final = 60.0
MOST_BYTES: Final = 1 << 20  # of one console, within BURST_SECONDS
BURST_SECONDS: Final = 4.0
FORMER_SECONDS: Final = 10.0  # that a console waits for the end of the former session of its machine


class Consoles:
    """``begin`` and ``end`` are for the turn thread; ``news`` is called on the thread of the consoles."""

    def __init__(self, most: Callable[[], int], news: Callable[[str], None]) -> None:
        self._most, self._news = most, news
        self._captures: dict[str, Capture] = {}  # by node; the turn thread changes it
        self._asked: deque[Callable[[], None]] = deque()
        self._openers = WorkerQueue("console", OPENERS, self._ask)
        self._ringer: socket.socket | None = (
            None  # made with the reader; only an annealer that installs has descriptors
        )
        self._reader: threading.Thread | None = None
        self._closed = False
        self._over = False  # the reader has ended: each caller makes its calls itself
        self._known: dict[str, Capture] = {}  # the same as the reader knows them
        self._open: set[Capture] = set()  # those with a console that is open or is being opened
        self._closing: dict[str, threading.Event] = {}  # noderole → the end of its former session

    # -- on the turn thread --

    def begin(self, fqdn: str, order: CaptureOrder) -> None:
        """Read the console of a machine until ``end``; nothing changes if it is read already."""
        if fqdn in self._captures or self._closed or not self._started():
            return
        capture = self._captures[fqdn] = Capture(order)
        self._ask(lambda: self._begin(fqdn, capture))

    def __contains__(self, fqdn: str) -> bool:
        return fqdn in self._captures

    def fresh(self, fqdn: str) -> None:
        """Forget the newest known line: it belongs to a step that is over."""
        if (capture := self._captures.get(fqdn)) is not None:
            capture.observed = None

    def observed(self, fqdn: str) -> str | None:
        """The newest known line."""
        capture = self._captures.get(fqdn)
        return capture.observed if capture is not None else None

    def end(self, fqdn: str) -> tuple[str, Path | None]:
        """Read it no more; gives the end of its log, and the file."""
        capture = self._captures.pop(fqdn, None)
        if capture is None:
            return "", None
        ended = capture.end()
        self._ask(lambda: self._forget(fqdn, capture))
        return ended

    def close(self) -> None:
        """Give all sessions back, within seconds."""
        self._closed = True
        for fqdn in list(self._captures):
            self.end(fqdn)
        self._ring()
        if self._reader is not None:
            self._reader.join(LONGEST_PAUSE_SECONDS / 12)
        self._openers.finish()
        self._over = True
        self._calls()

    def _started(self) -> bool:
        if self._reader is not None:
            return True
        with contextlib.ExitStack() as made:
            try:
                bell, self._ringer = map(made.enter_context, socket.socketpair())
                self._selector = made.enter_context(selectors.DefaultSelector())
                self._selector.register(bell, selectors.EVENT_READ, None)
                reader = threading.Thread(target=self._read, args=(bell,), name="consoles", daemon=True)
                reader.start()
            except (OSError, RuntimeError) as full:  # this host has no room for another thread, or for descriptors
                self._ringer = None
                log.warning("no console is read: %s", full)
                return False
            self._reader = reader
            made.pop_all()  # the reader closes them
        return True

    def _ask(self, call: Callable[[], None]) -> None:
        """Have a call made on the thread of the consoles; from any thread."""
        self._asked.append(call)
        self._ring()
        if self._over:
            self._calls()  # a console that was opened too late is closed

    def _ring(self) -> None:
        ringer = self._ringer
        if ringer is None:
            return
        with contextlib.suppress(OSError):  # the thread has ended, or has enough to read
            ringer.send(b"!", socket.MSG_DONTWAIT)

    # -- on the thread of the consoles --

    def _read(self, bell: socket.socket) -> None:
        while not self._closed:
            for key, _ in self._selector.select(self._seconds()):
                if key.data is None:
                    bell.recv(1 << 12)
                else:
                    self._take(key.data)
            self._calls()
            now = time.monotonic()
            for fqdn in [each for each, capture in self._known.items() if capture.next_try <= now]:
                self._try(fqdn, now)
        for capture in self._known.values():
            if capture.console is not None:
                capture.console.leave()  # all have the same time to end
        self._calls()
        for fqdn in list(self._known):
            self._forget(fqdn, self._known[fqdn])
        self._selector.close()
        bell.close()
        if self._ringer is not None:
            self._ringer.close()

    def _calls(self) -> None:
        while True:
            try:
                call = self._asked.popleft()
            except IndexError:
                return
            try:
                call()
            except Exception:  # the other consoles are read all the same
                log.exception("a console is not read")

    def _seconds(self) -> float:
        """Until the next try."""
        waiting = [each.next_try for each in self._known.values()]
        return min(max(0.01, min(waiting, default=LONGEST_PAUSE_SECONDS) - time.monotonic()), LONGEST_PAUSE_SECONDS)

    def _begin(self, fqdn: str, capture: Capture) -> None:
        if capture.over:
            return
        capture.begin()
        self._known[fqdn] = capture

    def _try(self, fqdn: str, now: float) -> None:
        """Open a console, or read one again that said too much."""
        capture = self._known[fqdn]
        capture.next_try = float("inf")
        if capture.console is not None:
            self._selector.register(capture.console, selectors.EVENT_READ, fqdn)
            return
        if len(self._open) >= self._most():
            if not capture.said:
                capture.note(f"{len(self._open)} other consoles are open; it is read when one of them ends")
            capture.said, capture.next_try = True, now + AGAIN_SECONDS
            return
        self._open.add(capture)
        take, order, capture.take = capture.take, capture.order, False
        before = self._closing.get(order.name)

        def work() -> SerialConsole | str:
            try:
                if before is not None:
                    before.wait(FORMER_SECONDS)  # a BMC has one session
                return "this annealer ends" if self._closed else order.open(take)
            except OcbError as fault:
                return reason_of(fault)
            except Exception as error:  # of a library: a console ends no run
                log.exception("%s: its console", order.name)
                return f"{type(error).__name__}: {error}"

        if not self._openers.ask(work, lambda found: self._opened(fqdn, capture, found)):
            self._later(capture, "this host has no room for a thread")

    def _opened(self, fqdn: str, capture: Capture, found: SerialConsole | str) -> None:
        if isinstance(found, str):
            self._later(capture, f"it cannot be opened: {found}")
        elif capture.over or self._known.get(fqdn) is not capture:
            self._open.discard(capture)
            self._give_back(capture, found)
        else:
            capture.console, capture.opened = found, time.monotonic()
            self._selector.register(found, selectors.EVENT_READ, fqdn)

    def _later(self, capture: Capture, why: str) -> None:
        """Try again after a pause."""
        self._open.discard(capture)
        if capture.over:
            return
        if capture.opened and time.monotonic() > capture.opened + LONGEST_PAUSE_SECONDS:
            capture.pause_seconds = AGAIN_SECONDS
        log.info("%s: console: %s", capture.order.name, why)
        capture.note(f"{why}; the next try comes in {capture.pause_seconds:.0f} s")
        capture.next_try = time.monotonic() + capture.pause_seconds
        capture.pause_seconds = min(capture.pause_seconds * 2, LONGEST_PAUSE_SECONDS)

    def _take(self, fqdn: str) -> None:
        capture = self._known.get(fqdn)
        if capture is None or capture.console is None:
            return
        data = capture.console.read()
        if not data and capture.console.refused:
            self._leave(capture)
            self._open.discard(capture)
            capture.note("the BMC refuses the login; it is not tried again")
            return
        if not data:
            self._leave(capture)
            self._later(capture, "it has ended")
            return
        if capture.heard(data):
            self._news(fqdn)
        now = time.monotonic()
        if now > capture.burst_began + BURST_SECONDS:
            capture.burst_began, capture.burst = now, 0
        capture.burst += len(data)
        if capture.burst > MOST_BYTES:  # the others and the log of this host come first
            self._selector.unregister(capture.console)
            capture.next_try = capture.burst_began + BURST_SECONDS

    def _leave(self, capture: Capture) -> None:
        if capture.console is not None:
            with contextlib.suppress(KeyError, ValueError):  # it was set aside after a burst
                self._selector.unregister(capture.console)
            self._give_back(capture, capture.console)
        capture.console = None

    def _give_back(self, capture: Capture, console: SerialConsole) -> None:
        """Close it on another thread: a program may take seconds to end its session, and others are read meanwhile."""
        console.leave()
        name, over = capture.order.name, threading.Event()

        def work() -> None:
            try:
                console.close()
            finally:
                over.set()

        def ended(_: None) -> None:
            if self._closing.get(name) is over:
                del self._closing[name]

        self._closing[name] = over
        if self._closed or not self._openers.ask(work, ended):
            work()
            ended(None)

    def _forget(self, fqdn: str, capture: Capture) -> None:
        if self._known.get(fqdn) is capture:
            del self._known[fqdn]
        if capture.console is not None:
            self._open.discard(capture)
        self._leave(capture)
