"""A daemon's life: turns, signals, systemd, health pages, and an end that nothing can prevent.

``serve`` runs ``turn`` whenever ``wake`` is set, or after as many seconds as the turn said. A turn that
raises is logged and counted, and the next comes after a back-off; but NoCluster ends the daemon, Denied does before a
turn has ended well, and Taken if it lasts. A turn that hangs is seen by systemd's watchdog and by /health/live.

SIGTERM and SIGINT set ``stop``: turns go on until ``drained`` says so, and a second signal ends the process
at once. SIGHUP calls ``reload`` between two turns. Signals are read by a thread: setting an Event in a
signal handler can deadlock with the Event's own lock, which the interrupted main thread may hold.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final

from nodepool_ocb import metrics
from nodepool_ocb.errors import Denied, NoCluster, OcbError, Taken
from nodepool_ocb.health import Pages, Trouble
from nodepool_ocb.logs import failed, setup_logging
from nodepool_ocb.page import Page

__all__ = ["notify", "serve", "setup_logging"]

log = logging.getLogger(__name__)

STUCK_SECONDS: Final = 60.0  # a turn as long as this hangs, where systemd's watchdog says nothing else
LONGEST_BACKOFF_SECONDS: Final = 30.0
TAKEN_SECONDS: Final = 0.5  # between two looks whether our name is free
DRAINING_SECONDS: Final = 0.1  # between two turns once a stop was asked for
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve(
    turn: Callable[[], float],
    wake: threading.Event,
    stop: threading.Event,
    *,
    reload: Callable[[], None] | None = None,
    drained: Callable[[], bool] = lambda: True,
    ready: Trouble = lambda: None,
    listen: str | None = None,
    pages: Mapping[str, Page] | None = None,
    on_listening: Callable[[str], None] = lambda _: None,
    end_within_seconds: float = 10.0,
) -> None:
    """Run turns until ``stop`` is set and ``drained()`` is true; call it on the main thread.

    ``turn`` gives the seconds until the next one, should nothing wake it before. ``ready`` gives the
    sentence that says why this daemon is not of use now, or None. ``pages`` are served on ``listen`` too;
    ``on_listening`` is told the address, HOST:PORT, before the first turn. After a signal the process ends within
    ``end_within_seconds`` (drain included), with exit status 1 if it has to be forced. Raises Invalid where
    ``listen`` cannot be used.
    """
    heart = _Heart()
    loop = _Loop(turn, wake, stop, heart)
    health = {"live": heart.trouble, "ready": lambda: loop.trouble or ready()}
    served = Pages(listen, health, pages) if listen else None
    if served:
        log.info("serving http://%s/metrics", served.address)
        on_listening(served.address)
    with _Signals(wake, stop, end_within_seconds) as signals:
        while not (stop.is_set() and drained()):
            if signals.reload_wanted.is_set() and reload:
                signals.reload_wanted.clear()
                _reload(reload)
            loop.once()
    if served:
        served.close()


def notify(*lines: str) -> None:
    """Tell systemd (sd_notify); nothing happens where nobody listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.sendto("\n".join(lines).encode(), "\0" + address[1:] if address[0] == "@" else address)


def _reload(reload: Callable[[], None]) -> None:
    notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
    try:
        reload()
    except OcbError as error:
        log.error("the configuration stays as it was: %s", error)
    else:
        log.info("reloaded")
    notify("READY=1")


class _Heart:
    """Whether the turn loop moves: beaten by the loop itself, so that no thread hides a turn that hangs."""

    def __init__(self) -> None:
        self.stuck_seconds = _watchdog_seconds() or STUCK_SECONDS
        self._beaten = time.monotonic()

    def beat(self) -> None:
        self._beaten = time.monotonic()
        notify("WATCHDOG=1")

    def trouble(self) -> str | None:
        age = time.monotonic() - self._beaten
        return f"the turn has hung for {age:.0f} s" if age > self.stuck_seconds else None


def _watchdog_seconds() -> float | None:
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None  # meant for the process that started us
    with suppress(ValueError):
        return int(os.environ.get("WATCHDOG_USEC", "")) / 1e6
    return None


class _Loop:
    """One turn and the rest after it; ``trouble`` says why the newest turn was not one."""

    def __init__(self, turn: Callable[[], float], wake: threading.Event, stop: threading.Event, heart: _Heart) -> None:
        self._turn, self._wake, self._stop, self._heart = turn, wake, stop, heart
        self._failures = 0
        self._new = True  # no turn has ended well yet
        self._taken_since: float | None = None  # monotonic
        self.trouble: str | None = "the first turn has not ended yet"

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
                raise  # it never worked: whoever started it must see that
            self._failed(denied)
            return
        except Taken as other:
            self._wait_for(other)
            return
        except Exception as error:
            self._failed(error)
            return
        metrics.TURN_SECONDS.observe(time.monotonic() - started)
        if self.trouble:
            self.trouble, self._failures, self._taken_since = None, 0, None
            self._new = False
            notify("READY=1")
        self._rest(wait, self._wake)

    def _wait_for(self, other: Taken) -> None:
        """Its session may be about to end, and then all is well; raises Taken where it does not end in time."""
        now = time.monotonic()
        if self._taken_since is None:
            self._taken_since = now
            log.warning("waiting for up to %.0f s: %s", other.wait_seconds, other)
        if now > self._taken_since + other.wait_seconds:
            raise other
        self.trouble = str(other)
        self._rest(TAKEN_SECONDS, self._stop)

    def _failed(self, error: Exception) -> None:
        metrics.TURN_FAILURES.inc()
        self._failures += 1
        wait = min(2.0 ** (self._failures - 1), LONGEST_BACKOFF_SECONDS)
        self.trouble = f"the newest turn failed: {type(error).__name__}: {error}"
        failed(log, error, "the turn failed (%d in a row); the next is in %.0f s", self._failures, wait)
        self._rest(wait, self._stop)  # not by wake: what made it fail may wake it all the time

    def _rest(self, seconds: float, until: threading.Event) -> None:
        if self._stop.is_set():  # both events are set for good: take turns at a calm pace until drained
            time.sleep(min(seconds, DRAINING_SECONDS))
            return
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            if until.wait(min(left, self._heart.stuck_seconds / 2)):
                return
            self._heart.beat()


class _Signals:
    """Reads signals on a thread of its own, and ends the process where it does not end by itself."""

    def __init__(self, wake: threading.Event, stop: threading.Event, end_within_seconds: float) -> None:
        self.reload_wanted = threading.Event()
        self._wake, self._stop, self._end_within_seconds = wake, stop, end_within_seconds
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
        if self._deadline is None:
            return
        time.sleep(max(0.0, self._deadline - time.monotonic()))
        log.critical("did not end within %.0f s of the signal: ending by force", self._end_within_seconds)
        os._exit(1)

    def _got(self, number: int) -> None:
        if number == signal.SIGHUP:
            self.reload_wanted.set()
        elif number in SIGNALS:
            log.info("%s: stopping", signal.Signals(number).name)
            if self._deadline is not None:
                os._exit(1)
            notify("STOPPING=1")
            self._deadline = time.monotonic() + self._end_within_seconds
            self._reader.settimeout(self._end_within_seconds)
            self._stop.set()
        self._wake.set()
