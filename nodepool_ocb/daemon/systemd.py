"""The messages of a daemon to systemd (sd_notify); without systemd nothing happens.

``Status`` is the sentence that ``systemctl status`` shows: the daemon's present work. It is sent when it changes, and at
most once in STATUS_SECONDS.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import Final

STATUS_SECONDS: Final = 1.0
SENTENCE_CHARACTERS: Final = 300
SPARE_SECONDS: Final = 5.0  # between the time that a daemon takes to end and the one that systemd ends it at


def notify(*lines: str) -> None:
    """Send these lines as one message."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.sendto("\n".join(lines).encode(), "\0" + address[1:] if address[0] == "@" else address)


def status(sentence: str) -> str:
    """The line that shows a sentence, for any characters in it.

    >>> status("no key" + chr(10) + "READY=1")
    'STATUS=no key READY=1'
    """
    visible = "".join(each if each.isprintable() else " " for each in sentence)
    return f"STATUS={visible[:SENTENCE_CHARACTERS]}"


def within(seconds: float) -> str:
    """The line that keeps systemd from ending a daemon that starts or stops, for so long and a little longer.

    Without it TimeoutStartSec= and TimeoutStopSec= of the unit would count, which know nothing of the configuration.

    >>> within(60.0)
    'EXTEND_TIMEOUT_USEC=65000000'
    """
    return f"EXTEND_TIMEOUT_USEC={int((seconds + SPARE_SECONDS) * 1e6)}"


def watchdog_seconds() -> float | None:
    """After so long a silence systemd takes this process for dead; None where it does not watch it."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None  # meant for the process that started us
    with suppress(ValueError):
        return int(os.environ.get("WATCHDOG_USEC", "")) / 1e6
    return None


class Status:
    """The sentence that is shown."""

    def __init__(self) -> None:
        self._shown = ""
        self._at = -STATUS_SECONDS  # monotonic

    def show(self, sentence: str) -> float:
        """Show it if it is another one; gives the seconds until it may be shown, infinite where it is."""
        if sentence == self._shown:
            return float("inf")
        now = time.monotonic()
        if now < self._at + STATUS_SECONDS:
            return self._at + STATUS_SECONDS - now
        self._shown, self._at = sentence, now
        notify(status(sentence))
        return float("inf")
