"""Waiting for a build: ``image build --wait``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final, NamedTuple

import click

from nodepool_ocb.cli.images import buildlog, imaging
from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.live import lively
from nodepool_ocb.cli.pictures import waits
from nodepool_ocb.errors import InError, NotFound, OcbError, TimedOut, Unavailable
from nodepool_ocb.images.builders import why_not_built
from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.views import images
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.progress import BuildProgress, of_build
from nodepool_ocb.views.times import age

TICK_SECONDS: Final = 5.0  # builders come and go, pauses end
TERMINAL_TICK_SECONDS: Final = 1.0  # a line that moves
LINES: Final = 20  # of a failed build's log


def wait(name: str, request: int, timeout_seconds: float | None, changes: Sequence[ChangeRow], nobody: bool) -> None:
    """Wait for a build that answers the request, and print how it ended: one document.

    ``nobody``: that no builder is running was said already.
    Raises InError (failed, paused without end, withdrawn), NotFound (the image is gone), or TimedOut.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    last: tuple[ImageView | None, BuildProgress] | None = None
    ended: OcbError | None = None
    try:
        with waits.going_on(f"the build of {name}", lambda: f"image show {name}"):
            for view, now in _standings(name, request, deadline, nobody):
                last = view, now
                if now.outcome:
                    ended = _error(name, now)
                    break
    except TimedOut as error:
        ended = error
    if last is not None:
        _tell(name, request, last, ended, changes)
    if ended is not None:
        raise ended


def _standings(
    name: str, request: int, deadline: float | None, nobody: bool
) -> Iterator[tuple[ImageView | None, BuildProgress]]:
    """With a line that moves on a terminal; elsewhere a line for each thing that is new."""
    builders: Mapping[str, Daemon] = {}
    terminal = lively(sys.stderr)
    with ExitStack() as stack:
        show = _live(stack) if terminal else _said({images.NOBODY} if nobody else set())
        for opened, found in imaging.followed(deadline, TERMINAL_TICK_SECONDS if terminal else TICK_SECONDS):
            view = found.get(name)
            now = of_build(view, request, opened.now())
            with suppress(Unavailable):  # only a remark: the images say when it matters
                builders = imaging.builders(opened)
            if now.outcome is None:
                show(now, _seen(name, builders, building=now.build is not None))
            yield view, now


class Running(NamedTuple):
    """The builders that run, and the sentence for a person if none of them can build the image."""

    builders: Mapping[str, Daemon]
    sentence: str | None


def _seen(name: str, running: Mapping[str, Daemon], building: bool) -> Running:
    if not running:
        return Running(running, images.NOBODY)
    reason = None if building else why_not_built(name, running)
    return Running(running, images.cannot_build(name, reason) if reason else None)


Show = Callable[[BuildProgress, Running], None]


def _said(said: set[str]) -> Show:
    def show(now: BuildProgress, running: Running) -> None:
        for line in (now.sentence, running.sentence):
            if line is not None and line not in said:
                said.add(line)
                output.say(line)

    return show


def _live(stack: ExitStack) -> Show:
    from rich.live import Live
    from rich.text import Text

    live: Any = stack.enter_context(Live(console=output.console(sys.stderr), transient=True, auto_refresh=False))
    begun = time.time()
    last_line = buildlog.LastLine()

    def show(now: BuildProgress, running: Running) -> None:
        since = now.build.record.started if now.build else 0.0
        parts = [now.sentence, age(time.time() - (since or begun))]
        if running.sentence is not None:
            parts = [running.sentence, parts[1]]
        elif now.build is not None:
            parts.append(last_line.of(now.build.record, running.builders))
        text = Text(" | ".join(part for part in parts if part), no_wrap=True, overflow="ellipsis")
        live.update(text, refresh=True)

    return show


def _error(name: str, now: BuildProgress) -> OcbError | None:
    if now.outcome == "ready":
        return None
    if now.outcome == "deleted":
        return NotFound(f"{name}: {now.sentence}")
    return InError(f"{name}: {now.sentence}")


def _tell(
    name: str,
    request: int,
    last: tuple[ImageView | None, BuildProgress],
    ended: OcbError | None,
    changes: Sequence[ChangeRow],
) -> None:
    view, now = last
    build = now.build
    outcome = "timeout" if isinstance(ended, TimedOut) else now.outcome
    row = images.build_row(view, build) if view and build else None
    ended_with = images.BuildWait(outcome=outcome, image=name, request=request, build=row, changes=tuple(changes))
    if now.outcome == "failed" and build is not None:
        for line in (build.record.tail or "").splitlines()[-LINES:]:
            output.say(f"| {click.unstyle(line)}")
        output.say(f"the whole log: nodepool-ocb image log {name} {build.id}")
    output.thing(ended_with, build.id if build else "", output.fields(images.wait_words(ended_with)))
