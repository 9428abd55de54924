"""Asking for a build, and waiting until it is there: ``image build``.

Asking raises a flag, and each time it is raised it has another number (its mzxid). A build answers the request if the
flag that stood there when the build began had this number or a later one. Known is: such a build is ready; the newest of
them has failed; or none can begin before somebody acts. A build whose builder died says nothing: another begins.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from nodepool_ocb.cli.images import buildlog, imaging
from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.times import shown
from nodepool_ocb.errors import InError, NotFound, OcbError, Stale, TimedOut, Unavailable
from nodepool_ocb.images import rules
from nodepool_ocb.images.rules import BuildView, ImageView
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import BuildRequest, BuildState, Change, Create, Daemon, Json, Set
from nodepool_ocb.views.times import age

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

TICK_SECONDS: Final = 5.0  # builders come and go, pauses end
TERMINAL_TICK_SECONDS: Final = 1.0  # a line that moves
LINES: Final = 20  # of a failed build's log


class BuildProgress(msgspec.Struct, frozen=True):
    """How far the build is that was asked for."""

    outcome: str | None  # ready, failed, paused, withdrawn or deleted; None while it is open
    sentence: str
    build: BuildView | None = None


def standing(view: ImageView | None, request: int, now: float) -> BuildProgress:
    """Of the request with this number; pure."""
    if view is None:
        return BuildProgress("deleted", "the image was deleted")
    ours = [build for build in view.builds if build.record.request >= request]
    for build in ours:
        if build.record.state is BuildState.READY:
            return BuildProgress("ready", f"build {build.id} is ready", build)
    newest = ours[-1] if ours else None
    state = rules.state_shown(newest, view.holder) if newest else None
    if newest and state is BuildState.FAILED:
        return BuildProgress(
            "failed", f"build {newest.id} failed: {newest.record.reason or 'no reason was recorded'}", newest
        )
    if newest and state is BuildState.BUILDING:
        return BuildProgress(None, f"{newest.record.builder} makes build {newest.id}", newest)
    return _not_begun(view, request, newest, now)


def _not_begun(view: ImageView, request: int, last: BuildView | None, now: float) -> BuildProgress:
    lost = f"build {last.id} was aborted; " if last else ""
    if view.request is None or view.request.mzxid < request:
        return BuildProgress("withdrawn", f"{lost}the request is gone, and no build that answers it is ready", last)
    if view.pause is not None and view.pause.on(now):
        pause = view.pause.record
        by = f"{pause.by or 'somebody'} has paused {view.name}{f': {pause.reason}' if pause.reason else ''}"
        if pause.until is None:
            return BuildProgress(
                "paused", f"{lost}{by}; the request stays: nodepool-ocb image unpause {view.name}", last
            )
        return BuildProgress(None, f"{lost}{by}; it goes on at {shown(pause.until)}", last)
    if view.holder is not None:
        return BuildProgress(None, f"{lost}{view.holder.host} works on {view.name}, on what was asked for before", last)
    return BuildProgress(None, f"{lost}waiting for a builder to begin", last)


def ask(opened: Session, name: str, reason: str | None) -> tuple[Change, int]:
    """Raise the flag, also where one stands already; gives what was written, and the request's number."""
    record = BuildRequest(by=session.me(), reason=reason, at=opened.now())
    path = paths.request_build(name)
    for _ in range(session.ATTEMPTS):
        znode = opened.get(path)
        change = Create(path, record) if znode is None else Set(path, record, znode.version)
        try:
            stat = opened.commit([change])[0]
        except Stale:
            continue  # another asked, or a build became ready, at this moment
        assert stat is not None, "a flag that was written has a stat"
        return change, stat.mzxid
    raise Stale(f"others keep asking for builds of {name}; try again", path)


# -- waiting --


def wait(name: str, request: int, timeout_seconds: float | None, changes: list[Change]) -> None:
    """Wait for a build that answers the request, and print how it ended: one document.

    Raises InError (failed, paused without end, withdrawn), NotFound (the image is gone), or TimedOut.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    last: tuple[ImageView | None, BuildProgress] | None = None
    ended: OcbError | None = None
    try:
        for view, now in _standings(name, request, deadline):
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


def _standings(name: str, request: int, deadline: float | None) -> Iterator[tuple[ImageView | None, BuildProgress]]:
    """With a line that moves on a terminal; elsewhere a line for each thing that is new."""
    builders: Mapping[str, Daemon] = {}
    terminal = sys.stderr.isatty()
    with ExitStack() as stack:
        show = _live(stack) if terminal else _said()
        for opened, images in imaging.followed(deadline, TERMINAL_TICK_SECONDS if terminal else TICK_SECONDS):
            view = images.get(name)
            now = standing(view, request, opened.now())
            with suppress(Unavailable):  # only a remark: the images say when it matters
                builders = imaging.builders(opened)
            if now.outcome is None:
                show(now, builders)
            yield view, now


Show = Callable[[BuildProgress, Mapping[str, Daemon]], None]


def _said() -> Show:
    said: set[str] = set()

    def show(now: BuildProgress, builders: Mapping[str, Daemon]) -> None:
        for line in (now.sentence, *([] if builders else [imaging.NOBODY])):
            if line not in said:
                said.add(line)
                output.say(line)

    return show


def _live(stack: ExitStack) -> Show:
    from rich.live import Live
    from rich.text import Text

    live: Any = stack.enter_context(Live(console=output.console(sys.stderr), transient=True, auto_refresh=False))
    begun = time.time()
    last_line = buildlog.LastLine()

    def show(now: BuildProgress, builders: Mapping[str, Daemon]) -> None:
        since = now.build.record.started if now.build else 0.0
        parts = [now.sentence, age(time.time() - (since or begun))]
        if not builders:
            parts = [imaging.NOBODY, parts[1]]
        elif now.build is not None:
            parts.append(last_line.of(now.build.record, builders))
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
    changes: list[Change],
) -> None:
    view, now = last
    build = now.build
    outcome = "timeout" if isinstance(ended, TimedOut) else now.outcome
    row = imaging.build_row(view, build) if view and build else None
    document: dict[str, Json] = {"outcome": outcome, "image": name, "request": request, "build": row}
    if now.outcome == "failed" and build is not None:
        for line in (build.record.tail or "").splitlines()[-LINES:]:
            output.say(f"| {click.unstyle(line)}")
        output.say(f"the whole log: nodepool-ocb image log {name} {build.id}")
    shown = {"outcome": outcome, "image": name, "request": request, "build": build.id if build else None}
    if row is not None:
        shown |= {key: row[key] for key in ("state", "since", "formats", "builder", "reason")}
    output.thing({**document, "changes": session.change_rows(changes)}, build.id if build else "", output.fields(shown))
