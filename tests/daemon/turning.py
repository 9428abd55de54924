"""A daemon that only turns, for test_daemon.py; its first argument says what is odd about it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import repeat

from nodepool_ocb.config import LogSettings
from nodepool_ocb.daemon import loop
from nodepool_ocb.daemon.loop import serve, setup_logging
from nodepool_ocb.daemon.reloading import Reload
from nodepool_ocb.errors import Denied, Invalid, NameTaken
from nodepool_ocb.http.certificates import OwnCertificate
from nodepool_ocb.http.page import PageResponse, PrivatePages

HUNG = threading.Event()  # never set


def turns(oddity: str) -> Iterator[float]:
    """What each turn gives; what it raises is a failing turn."""
    say("turn")
    if oddity == "hangs":
        HUNG.wait()
    while True:
        yield 3600.0
        say("turn")


def failing_twice() -> Iterator[Exception | float]:
    yield ValueError("no luck")
    yield ValueError("no luck")
    while True:
        yield 3600.0


def failing_often() -> Iterator[Exception | float]:
    """Each time in other words, and well in the end."""
    yield from (ValueError(f"no luck {number}") for number in range(1, 6))
    while True:
        yield 3600.0


def denied(again: bool) -> Iterator[Exception | float]:
    """At once, or after a turn that ended well."""
    if again:
        yield 0.0
    yield Denied("ZooKeeper does not let this user read /ocb/roles")
    while True:
        yield 3600.0


def turn_of(oddity: str) -> Callable[[], float]:
    results: Iterator[Exception | float] = turns(oddity)
    if oddity == "fails twice":
        results = failing_twice()
    elif oddity == "fails often":
        results = failing_often()
        loop.LONGEST_BACKOFF_SECONDS = 0.05  # type: ignore[misc]
    elif oddity == "taken":
        results = repeat(NameTaken("another has our name", wait_seconds=300.0))
    elif oddity == "busy":
        results = repeat(0.0)
    elif oddity.startswith("denied"):
        results = denied(again=oddity == "denied later")

    def turn() -> float:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    return turn


def reload() -> Reload:
    say("reload")
    oddity, _, word = sys.argv[1].partition(": ")
    if oddity == "bad configuration":
        raise Invalid("nodepool-ocb.yaml:3: annealer.slots: is not a number")
    if oddity == "reload raises":
        raise ValueError("no luck")
    waiting = ("zookeeper.hosts",) if oddity == "needs a restart" else ()
    listen = word if oddity == "moves" else "127.0.0.1:0"
    return Reload(lambda: say("applied"), listen, 1.0, waiting)


def say(word: str) -> None:
    print(word, flush=True)


def main() -> None:
    oddity = sys.argv[1]
    setup_logging(LogSettings(format="plain", level="info"))
    wake, stop = threading.Event(), threading.Event()
    asked: list[float] = []
    turned = turn_of(oddity)
    turns_taken: list[None] = []

    def turn() -> float:
        turns_taken.append(None)
        return turned()

    def doing() -> str:
        return f"turn {len(turns_taken)}" if oddity == "busy" else "nothing to do"

    def drained() -> bool:
        asked.append(time.monotonic())
        return oddity != "never drained" and (oddity != "drains" or time.monotonic() - asked[0] > 0.3)

    def failing(why: str | None) -> None:
        say(f"told {why}")
        if why is not None:
            raise ValueError("nobody listens")

    serve(
        turn,
        wake,
        stop,
        reload=reload,
        doing=doing,
        drained=drained,
        listen="127.0.0.1:0",
        private=PrivatePages({"echo": lambda *_: PageResponse(200, b"echo")}, OwnCertificate(), tuple),
        on_listening=lambda address: say(f"listening {address}"),
        on_failing=failing,
        end_within_seconds=1.0,
    )
    say("ended")
    if oddity == "cannot exit":
        threading.Thread(target=HUNG.wait).start()  # not a daemon thread: the interpreter waits for it


if __name__ == "__main__":
    main()
