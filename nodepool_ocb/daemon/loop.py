"""A daemon's life: turns, signals, systemd, health pages, and an end that nothing can prevent.

``serve`` runs ``turn`` whenever ``wake`` is set, or after as many seconds as the turn said. A turn that
raises is logged and counted, and the next comes after a back-off. NoCluster ends the daemon; Denied ends it before the
first good turn; NameTaken ends it if it lasts. Systemd's watchdog and /health/live notice a turn that hangs.

SIGTERM and SIGINT set ``stop``: turns go on until ``drained`` says so, and a second signal ends the process
at once. SIGHUP calls ``reload`` between two turns. Signals are read by a thread: setting an Event in a
signal handler can deadlock with the Event's own lock, which the interrupted main thread may hold.

systemd shows the present work or the fault of the daemon; and, after a reload, the settings that need a restart.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final

from nodepool_ocb.daemon import systemd
from nodepool_ocb.daemon.changed import ChangedFiles
from nodepool_ocb.daemon.reloading import Reload
from nodepool_ocb.errors import Denied, NameTaken, NoCluster, reason_of
from nodepool_ocb.http.page import PrivatePages
from nodepool_ocb.http.server import Door, Trouble
from nodepool_ocb.telemetry import metrics
from nodepool_ocb.telemetry.logs import failed, setup_logging

__all__ = ["serve", "setup_logging"]

log = logging.getLogger(__name__)

STUCK_SECONDS: Final = 60.0  # a turn as long as this hangs, where systemd's watchdog says nothing else
TELL_SECONDS: Final = 1.0  # the most between two messages that the loop moves: there may be a thousand turns a second
TOLD_IN_TIME: Final = 20  # messages, at least, in the time after which systemd ends a silent daemon
LONGEST_BACKOFF_SECONDS: Final = 30.0
TAKEN_SECONDS: Final = 0.5  # between two looks whether our name is free
FAILING_TURNS: Final = 3  # in a row: then others are to know
LONGEST_REASON: Final = 500  # characters of an error that are shown
DRAINING_SECONDS: Final = 0.1  # between two turns once a stop was asked for
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve(
    turn: Callable[[], float],
    wake: threading.Event,
    stop: threading.Event,
    *,
    reload: Callable[[], Reload] | None = None,
    changed: ChangedFiles | None = None,
    drained: Callable[[], bool] = lambda: True,
    ready: Trouble = lambda: None,
    doing: Callable[[], str] = lambda: "at work",
    listen: str | None = None,
    private: PrivatePages | None = None,
    on_listening: Callable[[str | None], None] = lambda _: None,
    on_failing: Callable[[str | None], None] = lambda _: None,
    end_within_seconds: float = 10.0,
) -> None:
    """Run turns until ``stop`` is set and ``drained()`` is true; call it on the main thread.

    ``turn`` gives the seconds until the next one, should nothing wake it before. ``ready`` returns the
    reason why this daemon is not ready, or None; ``doing`` its present work. ``private`` pages are served on
    ``listen`` too; ``on_listening`` gets the address, HOST:PORT, before the first turn and when it changes.
    If files are ``changed``, ``reload`` is called as well.
    ``on_failing`` gets the reason of failing turns between turns: after the third failure in a row and each that follows; and
    None after the next success. After a signal the process ends within ``end_within_seconds`` (drain included), with exit
    status 1 if it has to be forced. Raises Invalid where ``listen`` cannot be used.
    """
    heart = _Heart()
    loop = _Loop(turn, wake, stop, heart, lambda: ready() or doing(), on_failing, changed)
    door = Door({"live": heart.trouble, "ready": lambda: loop.trouble or ready()}, private, on_listening)
    door.move(listen)
    with _Signals(wake, stop, end_within_seconds) as signals:
        while not (stop.is_set() and drained()):
            if (signals.reload_wanted.is_set() or loop.changed) and reload:
                signals.reload_wanted.clear()
                loop.changed = False
                with loop.reloading():
                    loop.note = _reload(reload, door, signals)
            loop.once()
    door.close()


def _reload(reload: Callable[[], Reload], door: Door, signals: _Signals) -> str:
    """Take over a configuration that was read again, or nothing of it; returns the messages about it."""
    try:
        fresh = reload()
        door.move(fresh.listen)
        fresh.apply()
        signals.end_within_seconds = fresh.end_within_seconds
    except Exception as error:
        failed(log, error, "the new configuration is refused, and the former one stays in use")
        return f"the new configuration is refused, and the former one stays in use: {error}"
    if fresh.waiting:
        note = f"needs a restart: {', '.join(fresh.waiting)}"
        log.warning("the configuration was read again; %s", note)
        return note
    log.info("reloaded")
    return ""


class _Heart:
    """Whether the turn loop moves: beaten by the loop itself, so that no thread hides a turn that hangs."""

    def __init__(self) -> None:
        self.stuck_seconds = systemd.watchdog_seconds() or STUCK_SECONDS
        self._beaten = time.monotonic()
        self._notified = float("-inf")  # monotonic

    def beat(self) -> None:
        self._beaten = now = time.monotonic()
        if now >= self._notified + min(TELL_SECONDS, self.stuck_seconds / TOLD_IN_TIME):
            self._notified = now
            systemd.notify("WATCHDOG=1")

    def trouble(self) -> str | None:
        age = time.monotonic() - self._beaten
        return f"the turn has hung for {age:.0f} s" if age > self.stuck_seconds else None


class _Loop:
    """One turn and the rest after it; ``trouble`` is the reason why the newest turn failed.

    ``about`` is the status of the daemon while turns succeed, and ``note`` is added to it.
    """

    def __init__(
        self,
        turn: Callable[[], float],
        wake: threading.Event,
        stop: threading.Event,
        heart: _Heart,
        about: Callable[[], str],
        on_failing: Callable[[str | None], None],
        files: ChangedFiles | None,
    ) -> None:
        self._files = files
        self.changed = False  # whether files are to be read again
        self._turn, self._wake, self._stop, self._heart, self._about = turn, wake, stop, heart, about
        self._on_failing = on_failing
        self._failures = 0
        self._failing: str | None = None  # as others see it
        self._new = True  # no turn has ended well yet
        self._taken_since: float | None = None  # monotonic
        self._status = systemd.Status()
        self.trouble: str | None = "the first turn has not ended yet"
        self.note = ""

    def once(self) -> None:
        self._heart.beat()
        self._wake.clear()  # before the turn reads: a change during the turn must wake us again
        started = time.monotonic()
        metrics.TURNS.inc()
        try:
            wait = self._turn()
        except NoCluster:
            raise  # no later turn is better: the process ends, and its next start looks again
        except Denied as denied:
            if self._new:
                raise  # it never worked: its starter must see that
            self._failed(denied)
            return
        except NameTaken as other:
            self._wait_for(other)
            return
        except Exception as error:
            self._failed(error)
            return
        metrics.TURN_SECONDS.observe(time.monotonic() - started)
        if self.trouble:
            self.trouble, self._failures, self._taken_since = None, 0, None
            self._new = False
            systemd.notify("READY=1")
        if self._failing is not None:
            self._tell(None)
        self._rest(wait, self._wake)

    def _wait_for(self, other: NameTaken) -> None:
        """Its session may be about to end, and then all is well; raises NameTaken where it does not end in time."""
        now = time.monotonic()
        if self._taken_since is None:
            self._taken_since = now
            log.warning("waiting for up to %.0f s: %s", other.wait_seconds, other)
            systemd.notify(systemd.within(other.wait_seconds))
        if now > self._taken_since + other.wait_seconds:
            raise other
        self.trouble = str(other)
        self._rest(TAKEN_SECONDS, self._stop)

    def _failed(self, error: Exception) -> None:
        metrics.TURN_FAILURES.inc()
        self._failures += 1
        wait = min(2.0 ** (self._failures - 1), LONGEST_BACKOFF_SECONDS)
        self.trouble = f"the newest turn failed: {reason_of(error)}"
        failed(log, error, "the turn failed (%d in a row); the next is in %.0f s", self._failures, wait)
        if self._failures >= FAILING_TURNS:
            reason = f"its turns fail: {reason_of(error)}"[:LONGEST_REASON]
            self._tell(self._failing or reason)  # the first one: each is written for all to read
        self._rest(wait, self._stop)  # not by wake: the cause of the failure may wake it all the time

    def _tell(self, failing: str | None) -> None:
        self._failing = failing
        try:
            self._on_failing(failing)
        except Exception as error:
            failed(log, error, "cannot report that turns fail, or succeed again; the turns go on")

    def _rest(self, seconds: float, until: threading.Event) -> None:
        shown = self._show()
        if self._stop.is_set():  # both events are set for good: take turns at a calm pace until drained
            time.sleep(min(seconds, DRAINING_SECONDS))
            return
        ends, look = time.monotonic() + seconds, self._files.look_seconds if self._files else seconds
        while (left := ends - time.monotonic()) > 0 and not self._look():
            if until.wait(min(left, look, shown, self._heart.stuck_seconds / 2)):
                return
            self._heart.beat()
            shown = self._show()

    def _look(self) -> bool:
        """Whether files were changed."""
        self.changed = self.changed or (self._files is not None and self._files.look())
        return self.changed

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Have systemd know of it; but READY=1 is for the first turn to say, if that has not ended yet."""
        if not self._new:
            systemd.notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        yield
        if not self._new:
            systemd.notify("READY=1")

    def _show(self) -> float:
        """Have systemd show the present status; returns the seconds until that may be sent."""
        sentence = self.trouble or self._about()
        return self._status.show(f"{sentence}; {self.note}" if self.note else sentence)


class _Signals:
    """Reads signals on a thread of its own, and ends the process where it does not end by itself."""

    def __init__(self, wake: threading.Event, stop: threading.Event, end_within_seconds: float) -> None:
        self.reload_wanted = threading.Event()
        self._wake, self._stop, self.end_within_seconds = wake, stop, end_within_seconds
        self._deadline: float | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python delivers no signal
            self._reader, self._writer = socket.socketpair()
            self._writer.setblocking(False)
            self._fd_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
            for number in SIGNALS:
                self._before[number] = signal.signal(number, lambda *_: None)
            threading.Thread(target=self._read, name="signals", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._before:
            for number, handler in self._before.items():
                signal.signal(number, handler)  # type: ignore[arg-type]
            signal.set_wakeup_fd(self._fd_before)
            self._writer.close()  # the thread stays only to see that the process ends

    def _read(self) -> None:
        self._reader.settimeout(None)
        with suppress(TimeoutError):
            while numbers := self._reader.recv(64):
                for number in numbers:
                    self._got(number)
                if self._deadline is not None:  # from the first signal on, however many come after it
                    self._reader.settimeout(max(0.001, self._deadline - time.monotonic()))
        if self._deadline is None:
            return
        time.sleep(max(0.0, self._deadline - time.monotonic()))
        log.critical("did not end within %.0f s of the signal: ending by force", self.end_within_seconds)
        os._exit(1)

    def _got(self, number: int) -> None:
        if number == signal.SIGHUP:
            self.reload_wanted.set()
        elif number in SIGNALS:
            log.info("%s: stopping", signal.Signals(number).name)
            if self._deadline is not None:
                os._exit(1)
            systemd.notify("STOPPING=1", systemd.within(self.end_within_seconds))
            self._deadline = time.monotonic() + self.end_within_seconds
            self._stop.set()
        self._wake.set()
