"""Waiting for a build: ``image build --wait``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.live import lively
from nodepool_ocb.cli.kit.performing import distant_server, performer
from nodepool_ocb.cli.pictures import waits
from nodepool_ocb.errors import OcbError, TimedOut
from nodepool_ocb.operations import buildlogs
from nodepool_ocb.operations.images import watching
from nodepool_ocb.operations.images.watching import BuildSeen
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.views import images
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.times import age

TICK_SECONDS: Final = 5.0  # builders come and go, pauses end
TERMINAL_TICK_SECONDS: Final = 1.0  # a line that moves
LINES: Final = 20  # of a failed build's log
SILENT_SECONDS: Final = 10.0  # builders that did not answer are asked again after this time


def wait(
    name: str, request: int, timeout_seconds: float | None, changes: Sequence[ChangeRow], no_builder: bool
) -> None:
    """Wait for a build that answers the request, and print its end: one document.

    ``no_builder``: a line has said before that no builder is running.
    Raises InError (failed, paused without end, withdrawn), NotFound (the image is gone), or TimedOut.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    last: BuildSeen | None = None
    ended: OcbError | None = None
    try:
        with waits.going_on(f"the build of {name}", lambda: f"image show {name}"):
            for seen in _seen(name, request, deadline, no_builder):
                last = seen
                if seen.progress.outcome:
                    ended = seen.error(name)
                    break
    except TimedOut as error:
        ended = error
    if last is not None:
        _tell(name, request, last, ended, changes)
    if ended is not None:
        raise ended


def _seen(name: str, request: int, deadline: float | None, no_builder: bool) -> Iterator[BuildSeen]:
    """With a line that moves on a terminal; elsewhere a line for each thing that is new."""
    terminal = lively(sys.stderr)
    with ExitStack() as stack:
        show = (
            _live(stack, LastLine(_ends(stack, name))) if terminal else _said({images.NOBODY} if no_builder else set())
        )
        tick_seconds = TERMINAL_TICK_SECONDS if terminal else TICK_SECONDS
        for seen in watching.builds(performer(), name, request, deadline, tick_seconds):
            if seen.progress.outcome is None:
                show(seen)
            yield seen


Show = Callable[[BuildSeen], None]


def _said(said: set[str]) -> Show:
    def show(seen: BuildSeen) -> None:
        for line in (seen.progress.sentence, seen.obstacle):
            if line is not None and line not in said:
                said.add(line)
                output.say(line)

    return show


#: The end of the log of the build that is seen; None if no daemon or server gives it.
EndOfLog = Callable[[BuildSeen], bytes | None]


def _ends(stack: ExitStack, name: str) -> EndOfLog:
    """Directly from its builder, or from the server of ``--api``."""
    used = performer()
    if isinstance(used, Performer):
        opened = stack.enter_context(used.session())

        def directly(seen: BuildSeen) -> bytes | None:
            build = seen.progress.build
            return None if build is None else buildlogs.end(opened, build.record, seen.builders)

        return directly
    from nodepool_ocb.remote import logs as distant

    server = distant_server(used)

    def over_http(seen: BuildSeen) -> bytes | None:
        build = seen.progress.build
        return None if build is None else distant.end(server, name, build.id, buildlogs.END_BYTES)

    return over_http


def _live(stack: ExitStack, last_line: LastLine) -> Show:
    from rich.live import Live
    from rich.text import Text

    live: Any = stack.enter_context(Live(console=output.console(sys.stderr), transient=True, auto_refresh=False))
    begun = time.time()

    def show(seen: BuildSeen) -> None:
        now = seen.progress
        since = now.build.record.started if now.build else 0.0
        parts = [now.sentence, age(time.time() - (since or begun))]
        if seen.obstacle is not None:
            parts = [seen.obstacle, parts[1]]
        elif now.build is not None:
            parts.append(last_line.of(seen))
        text = Text(" | ".join(part for part in parts if part), no_wrap=True, overflow="ellipsis")
        live.update(text, refresh=True)

    return show


class LastLine:
    """The last line of a build's log, for a line of progress."""

    def __init__(self, end: EndOfLog) -> None:
        self._end = end
        self._not_before = 0.0
        self._line = ""

    def of(self, seen: BuildSeen) -> str:
        """The line as of now, or as it was last known; empty if no builder has answered yet."""
        if time.monotonic() < self._not_before:
            return self._line
        data = self._end(seen)
        if data is None:
            self._not_before = time.monotonic() + SILENT_SECONDS
        else:
            self._line = _last_line(data) or self._line
        return self._line


def _last_line(data: bytes) -> str:
    lines = [line.strip() for line in click.unstyle(data.decode(errors="replace")).splitlines()]
    line = next((line for line in reversed(lines) if line), "")
    return "".join(letter if letter.isprintable() else " " for letter in line)


def _tell(
    name: str,
    request: int,
    last: BuildSeen,
    ended: OcbError | None,
    changes: Sequence[ChangeRow],
) -> None:
    view, now = last.view, last.progress
    build = now.build
    outcome = "timeout" if isinstance(ended, TimedOut) else now.outcome
    row = images.build_row(view, build) if view and build else None
    ended_with = images.BuildWait(outcome=outcome, image=name, request=request, build=row, changes=tuple(changes))
    if now.outcome == "failed" and build is not None:
        for line in (build.record.tail or "").splitlines()[-LINES:]:
            output.say(f"| {click.unstyle(line)}")
        output.say(f"the whole log: nodepool-ocb image log {name} {build.id}")
    output.thing(ended_with, build.id if build else "", output.fields(images.wait_words(ended_with)))
