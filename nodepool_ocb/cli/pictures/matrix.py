"""``status --watch``: the states of noderoles, node by node, as they change.

On a terminal a picture that fills it; elsewhere a line at each change, with the failures; with ``-o json`` an object a line.
It is drawn at most some times a second, and only changed parts are computed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import click

from nodepool_ocb.cli.kit import output, terminal
from nodepool_ocb.cli.kit.live import Screen, lively
from nodepool_ocb.model.records import Deployment, DeploymentRole, Role, State
from nodepool_ocb.operations import following, polling
from nodepool_ocb.operations.cluster.watching import StatusWatchLook
from nodepool_ocb.operations.performer import AnyPerformer
from nodepool_ocb.operations.scope import Scope
from nodepool_ocb.views.pictures import layout
from nodepool_ocb.views.pictures.matrix import Matrix, Moved, ShownMatrix

if TYPE_CHECKING:
    from rich.text import Text

DRAWN_SECONDS: Final = 0.25  # between two pictures
SHARE: Final = 4  # times as long as a picture took nothing is drawn
TICK_SECONDS: Final = 1.0  # the terminal may have another size
MOST_FAILED: Final = 10  # that are named at once


class Polled(NamedTuple):
    """The noderoles as a server of the API sees them, asked again and again."""

    used: AnyPerformer
    look: StatusWatchLook


#: The noderoles to show: those that a session follows, or those of a server.
Source: TypeAlias = Scope | Polled


def watch(scope: Source) -> None:
    """Show them until an interrupt."""
    match output.chosen():
        case "json":
            _objects(scope)
        case "table" if lively(sys.stdout):
            _drawn(scope)
        case "table":
            _sentences(scope)
        case other:
            raise click.UsageError(f"--watch and -o {other} contradict each other; -o json gives an object a line")


def followed(scope: Source, tick_seconds: float | None = None) -> Iterator[tuple[Matrix, list[Moved]]]:
    """The matrix at the start, after every change and at every tick, with the noderoles that moved."""
    if isinstance(scope, Polled):
        shown = ShownMatrix()
        for seen in polling.polled(scope.used, lambda: scope.look):
            yield shown, shown.see(seen)
        return
    matrix = Matrix(scope.has)
    first = True
    for world, touched in following.worlds(scope.performer, None, tick_seconds):
        begun = time.monotonic()
        whole = first or touched.has(Deployment, DeploymentRole, Role)
        moved = scope.look(world) if touched or first else set()
        names = (world.nodes.keys() | matrix.nodes.keys()) if whole else moved.union(touched.nodes)
        matrix.now = scope.now
        yield matrix, matrix.update(world, names)
        first = False
        time.sleep(max(DRAWN_SECONDS, SHARE * (time.monotonic() - begun)))


def _objects(scope: Source) -> None:
    first = True
    for matrix, moved in followed(scope):
        if moved or first:
            output.line(matrix.moment(moved))
        first = False


def _sentences(scope: Source) -> None:
    last = ""
    for matrix, moved in followed(scope):
        failed = [each for each in moved if each.state is State.ERROR]
        for each in failed[:MOST_FAILED]:
            terminal.text(f"{each.noderole} ERROR: {each.reason or 'no reason was recorded'}")
        if len(failed) > MOST_FAILED:
            terminal.text(f"... and {len(failed) - MOST_FAILED} more in ERROR")
        now = " ".join(layout.folded(layout.summary(matrix), output.UNLIMITED)) if matrix.nodes else layout.EMPTY
        if now != last:
            terminal.text(now)
        last = now


def _drawn(scope: Source) -> None:
    shown: tuple[layout.Line, ...] = ()
    try:
        with Screen(sys.stdout) as screen:
            for matrix, _ in followed(scope, TICK_SECONDS):
                now = tuple(layout.lines(matrix, *screen.size))
                before, shown = shown, now  # first: an interrupt may come while it is drawn
                if now != before or screen.resized:
                    screen.show([coloured(line) for line in now])
    finally:  # the last picture stays there
        output.render(*map(coloured, shown))


def coloured(line: layout.Line) -> Text:
    """A line with the colours of its states."""
    from rich.text import Text

    made = Text(no_wrap=True, overflow="crop")
    for piece in line:
        made.append(piece.text, style=output.COLOURS[piece.state] if piece.state else "")
    return made
