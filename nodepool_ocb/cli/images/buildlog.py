"""The log of a build, wherever it is: at its builder's page, in a file of this host, or its end in the record.

The builder's address is looked up again whenever nobody answers: a builder that was started anew is found, and the log goes
on at the byte that was reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from nodepool_ocb.cli.images import imaging
from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.http import logs
from nodepool_ocb.http.logs import Missing, Piece, Shorter, Unreached
from nodepool_ocb.images.rules import BuildView, ImageView
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.views.images import stands

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

WAIT_SECONDS: Final = 10.0  # that a builder may wait with its answer until there is more
PAUSE_SECONDS: Final = 0.5  # before nobody, or an empty file, is asked again
PATIENCE_SECONDS: Final = 5.0  # with a builder that does not answer, where the build has ended
LINE_SECONDS: Final = 1.0  # for the last line of a log, which is only a comfort
LINE_BYTES: Final = 2048

Found = Piece | Missing | Shorter | Unreached


def addresses(build: Build, builders: Mapping[str, Daemon]) -> Iterator[str]:
    """Where the builder of a build may be asked for its log: HOST:PORT, the likeliest first."""
    for identity, daemon in sorted(builders.items(), key=lambda each: each[0] != build.builder_id):
        if daemon.pages and (identity == build.builder_id or daemon.host == build.builder):
            host = daemon.pages.rpartition(":")[0].strip("[]")
            loopback = host in ("localhost", "::1") or host.startswith("127.")
            if not loopback or session.on_this_host(daemon.host):
                yield daemon.pages


class Source:
    """Where a build's log is to be had; ``look`` finds out again."""

    def __init__(self, opened: Session, image: str, build: BuildView) -> None:
        self._opened = opened
        self.image = image
        self.build = build  # as it was seen last
        self.state = build.record.state
        self.addresses: list[str] = []
        self.file: Path | None = None
        self.look()

    @property
    def ended(self) -> bool:
        """As far as was seen."""
        return self.state is not BuildState.BUILDING

    @property
    def known(self) -> bool:
        """Whether there is anybody to ask, or a file."""
        return bool(self.addresses or self.file)

    def look(self) -> bool:
        """See what is true now; False, and all as before, while ZooKeeper is away."""
        try:
            view = self._view()
            builders = imaging.builders(self._opened)
        except Unavailable:
            return False
        found = view.build(self.build.id) if view else None
        self.build = found or self.build
        self.state = stands(view, found) if view and found else BuildState.DELETE
        self.addresses = list(addresses(self.build.record, builders))
        host, file = imaging.log_of(self.build.record)
        self.file = Path(file) if session.on_this_host(host) and logs.readable(Path(file)) else None
        return True

    def _view(self) -> ImageView | None:
        from nodepool_ocb.store import images

        return images.read(self._opened, [self.image], {}).get(self.image)

    def ask(self, offset: int, wait_seconds: float) -> tuple[str, Found]:
        """The next piece and where it is from: the first place that has the log; else what the likeliest place said."""
        said: list[tuple[str, Found]] = []
        for address in self.addresses:
            answer = logs.ask(address, self.build.record.filename, offset, wait_seconds)
            if isinstance(answer, Piece | Shorter):
                return f"http://{address}", answer
            said.append((address, answer))
        if self.file:
            self.look()  # a file says nothing of its build: that first, so that what is read then is all of it
        if self.file:
            return str(self.file), logs.read(self.file, offset, self.ended)
        host = self.build.record.builder
        return said[0] if said else ("", Unreached(f"{host} is not running, or serves no pages (http.listen)"))


class Printed(msgspec.Struct):
    """What came of it: how far the log was read, and whether that is all there is of it."""

    offset: int = 0
    address: str = ""
    whole: bool = False
    reason: str = ""


def print_log(source: Source, out: Callable[[bytes], None], *, follow: bool, start: int = 0) -> Printed:
    """Give the log to ``out`` from ``start`` on: what there is now, or with ``follow`` until the build has ended.

    No byte is given twice, and none is left out; where that cannot be promised, it is said.
    """
    printed = Printed(offset=start)
    target: int | None = None  # without follow: the size at the first answer
    for address, piece in _pieces(source, printed, follow):
        out(piece.data)
        printed.offset, printed.address = piece.reached, address
        target = piece.size if target is None else target
        if printed.offset >= target if not follow else piece.last and _ended(source):
            printed.whole = True
            break
        if piece.last or (not piece.data and address == str(source.file)):
            time.sleep(PAUSE_SECONDS)  # nobody waited on our behalf
    return printed


def _pieces(source: Source, printed: Printed, follow: bool) -> Iterator[tuple[str, Piece]]:
    """Pieces from ``printed.offset`` on, and where they are from; ``printed.reason`` says why there are no more."""
    silent_since: float | None = None
    while True:
        address, found = source.ask(printed.offset, WAIT_SECONDS if follow else 0.0)
        if isinstance(found, Piece):
            silent_since = None
            yield address, found
        elif isinstance(found, Shorter):
            output.say(f"the log has lost its end, from byte {found.size} on: its host went down; going on there")
            printed.offset = found.size
        else:
            printed.reason = found.reason if isinstance(found, Unreached) else f"{address} has no such log"
            if silent_since is None:
                silent_since = time.monotonic()
                if follow and not source.ended:
                    output.say(f"{printed.reason}; trying again, from byte {max(printed.offset, 0)} on")
            if _given_up(source, found, follow, silent_since):
                return
            time.sleep(PAUSE_SECONDS)
            source.look()


def _ended(source: Source) -> bool:
    """Whether the record agrees that nothing is to come; while it cannot be read, the builder's word is taken."""
    return not source.look() or source.ended


def _given_up(source: Source, found: Found, follow: bool, silent_since: float) -> bool:
    if follow and not source.ended:
        return False
    if not source.known or isinstance(found, Missing):
        return True
    return time.monotonic() >= silent_since + PATIENCE_SECONDS


class LastLine:
    """The last line of a build's log, for a line of progress; nobody who does not answer is asked often."""

    def __init__(self) -> None:
        self._not_before = 0.0
        self._line = ""

    def of(self, build: Build, builders: Mapping[str, Daemon]) -> str:
        """As of now, or as it was last known; empty where nobody can be asked."""
        if time.monotonic() < self._not_before:
            return self._line
        for address in addresses(build, builders):
            found = logs.ask(address, build.filename, -LINE_BYTES, patience_seconds=LINE_SECONDS)
            if isinstance(found, Piece):
                self._line = _last_line(found.data) or self._line
                return self._line
        self._not_before = time.monotonic() + 10 * LINE_SECONDS
        return self._line


def _last_line(data: bytes) -> str:
    lines = [line.strip() for line in click.unstyle(data.decode(errors="replace")).splitlines()]
    line = next((line for line in reversed(lines) if line), "")
    return "".join(letter if letter.isprintable() else " " for letter in line)
