"""The log of a build, wherever it is: at its builder's page, in a file of this host, or its end in the record.

The builder's address is looked up again whenever nobody answers: a builder that was started anew is found, and the log goes
on at the byte that was reached.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.images import imaging
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.http import logs
from nodepool_ocb.http.following import LogPlaces
from nodepool_ocb.http.logs import LogPart
from nodepool_ocb.images.rules import BuildView, ImageView
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.operations import logs as daemonlogs
from nodepool_ocb.views.images import stands

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

LINE_SECONDS: Final = 1.0  # for the last line of a log, which is only a comfort
LINE_BYTES: Final = 2048


def addresses(build: Build, builders: Mapping[str, Daemon]) -> list[str]:
    """Where the builder of a build may be asked for its log: HOST:PORT, the likeliest first."""
    return list(daemonlogs.addresses(build.builder_id, build.builder, builders))


class Source:
    """Where a build's log is to be had; ``look`` finds out again."""

    regrows = False

    def __init__(self, opened: Session, image: str, build: BuildView) -> None:
        self._opened = opened
        self.image = image
        self.build = build  # as it was seen last
        self.state = build.record.state
        self.places = LogPlaces(build.record.filename)
        self.look()

    @property
    def ended(self) -> bool:
        """As far as was seen."""
        return self.state is not BuildState.BUILDING

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
        self.places = self._places(builders)
        return True

    def _places(self, builders: Mapping[str, Daemon]) -> LogPlaces:
        record = self.build.record
        host, file = imaging.log_of(record)
        return LogPlaces(
            record.filename,
            dict.fromkeys(addresses(record, builders), record.log or ""),
            record.log if daemonlogs.on_this_host(host) and logs.readable(Path(file)) else None,
            f"{record.builder} is not running, or serves no pages (http.listen)",
        )

    def _view(self) -> ImageView | None:
        from nodepool_ocb.store import images

        return images.read(self._opened, [self.image], {}).get(self.image)


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
            if isinstance(found, LogPart):
                self._line = _last_line(found.data) or self._line
                return self._line
        self._not_before = time.monotonic() + 10 * LINE_SECONDS
        return self._line


def _last_line(data: bytes) -> str:
    lines = [line.strip() for line in click.unstyle(data.decode(errors="replace")).splitlines()]
    line = next((line for line in reversed(lines) if line), "")
    return "".join(letter if letter.isprintable() else " " for letter in line)
