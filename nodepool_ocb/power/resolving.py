"""Names of hosts become addresses, many at the same time and within a time: a server of DNS may be silent."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Mapping
from queue import Empty, SimpleQueue
from typing import Final

AT_ONCE: Final = 16
SECONDS: Final = 5.0  # for all names together
MOST: Final = 8  # addresses of one name


def addresses(hosts: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """The addresses of each name that has some, in order. A name without an answer in ``SECONDS`` is left out."""
    waiting: SimpleQueue[str] = SimpleQueue()
    found: SimpleQueue[tuple[str, tuple[str, ...]]] = SimpleQueue()
    names = sorted(set(hosts))
    for name in names:
        waiting.put(name)
    for _ in range(min(AT_ONCE, len(names))):
        # A daemon, since a question to a silent server cannot be ended, and must not hold the process.
        threading.Thread(target=_resolve, args=(waiting, found), name="resolve", daemon=True).start()
    answers: dict[str, tuple[str, ...]] = {}
    ends = time.monotonic() + SECONDS
    for _ in names:
        try:
            name, those = found.get(timeout=max(0.0, ends - time.monotonic()))
        except Empty:
            break
        answers[name] = those
    return {name: those for name, those in answers.items() if those}


def _resolve(waiting: SimpleQueue[str], found: SimpleQueue[tuple[str, tuple[str, ...]]]) -> None:
    while True:
        try:
            name = waiting.get_nowait()
        except Empty:
            return
        found.put((name, _of(name)))


def _of(name: str) -> tuple[str, ...]:
    try:
        known = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(sorted({str(each[4][0]) for each in known}))[:MOST]
