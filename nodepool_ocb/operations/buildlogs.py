"""The log of a build, at one of three places: its builder's page, a file of this host, or its end in the record.

If no builder answers, the address of the builder is read again. So a builder that was restarted is found, and the log
continues at the byte that was reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from nodepool_ocb.errors import Unavailable
from nodepool_ocb.http import logs
from nodepool_ocb.http.following import Follower, Found, LogDelivery, LogPlaces, first
from nodepool_ocb.http.logs import AskedPart, LogPart
from nodepool_ocb.images.rules import BuildView, ImageView
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.records import Daemon
from nodepool_ocb.operations import logs as daemonlogs
from nodepool_ocb.operations.logs import MOST_BYTES, BuildChosen
from nodepool_ocb.views.images import BuildLog, stands

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

END_SECONDS: Final = 1.0  # that ``end`` waits for one builder
END_BYTES: Final = 2048


class BuildLogSeen(msgspec.Struct, frozen=True):
    """A look at the log of a build, as a server of the API gives it."""

    places: LogPlaces
    build: BuildView
    state: BuildState


class AnyBuildLog(daemonlogs.AskedLog, Protocol):
    """The log of a build, from its builder or from a server of the API."""

    image: str
    build: BuildView
    state: BuildState


class LogOfBuild:
    """The places of a build's log; ``look`` finds them again."""

    regrows = False

    def __init__(self, opened: Session, chosen: BuildChosen, *, files: bool = True) -> None:
        """``files``: a file of this host may be read."""
        self._opened = opened
        self._files = files
        self.image = chosen.image
        self.build = chosen.build  # as of the last look
        self.state = chosen.build.record.state
        self.places = LogPlaces(chosen.build.record.filename)
        self.access = logs.LogAccess()
        self.looked = self.look()

    @property
    def ended(self) -> bool:
        """True if nothing is added to the log any more, as of the last look."""
        return self.state is not BuildState.BUILDING

    def look(self) -> bool:
        """Read the record and the builders again; False, and nothing changes, during an outage of ZooKeeper."""
        try:
            view = self._view()
            builders = daemonlogs.daemons(self._opened, "builder")
            access = daemonlogs.access(self._opened, builders)
        except Unavailable:
            return False
        found = view.build(self.build.id) if view else None
        self.build = found or self.build
        self.state = stands(view, found) if view and found else BuildState.DELETE
        self.places, self.access = self._places(builders), access
        return True

    def ask(self, offset: int, wait_seconds: float) -> tuple[str, Found]:
        """The place and the piece from a byte on."""
        return first(self, offset, wait_seconds)

    def _places(self, builders: Mapping[str, Daemon]) -> LogPlaces:
        record = self.build.record
        host, _, file = (record.log or "").partition(":")
        return LogPlaces(
            record.filename,
            dict.fromkeys(addresses(record, builders), record.log or ""),
            record.log if self._files and daemonlogs.on_this_host(host) and logs.readable(Path(file)) else None,
            f"{record.builder} is not running, or serves no pages (http.listen)",
        )

    def _view(self) -> ImageView | None:
        from nodepool_ocb.store import images

        return images.read(self._opened, [self.image], {}).get(self.image)


def addresses(build: Build, builders: Mapping[str, Daemon]) -> list[str]:
    """The addresses at which a build's log may be asked for: HOST:PORT, the likeliest first."""
    return list(daemonlogs.addresses(build.builder_id, build.builder, builders))


def end(opened: Session, build: Build, builders: Mapping[str, Daemon]) -> bytes | None:
    """The last ``END_BYTES`` of a build's log; None if no builder answers, or ZooKeeper does not."""
    try:
        access = daemonlogs.access(opened, builders)
    except Unavailable:
        return None
    for address in addresses(build, builders):
        found = logs.ask(address, access, AskedPart(build.filename, -END_BYTES, 0.0, END_SECONDS))
        if isinstance(found, LogPart):
            return found.data
    return None


# -- giving it out --


def give(log: AnyBuildLog, out: Callable[[bytes], None], note: Callable[[str], None], follow: bool) -> None:
    """Give the log out, with ``follow`` until it ends. A note names its place; if no place has it, its recorded end follows."""
    given = Follower(log, out, note, log.ask).give(follow)
    note(_about(log, given))
    if not given.whole:
        out((log.build.record.tail or "").encode())


def document(log: AnyBuildLog, note: Callable[[str], None]) -> BuildLog:
    """The last MiB of the log as a document; a note names its place."""
    parts: list[bytes] = []
    given = Follower(log, parts.append, note, log.ask, -MOST_BYTES).give(follow=False)
    note(_about(log, given))
    record = log.build.record
    return BuildLog(
        image=log.image,
        build=log.build.id,
        state=log.state,
        log=record.log,
        whole=given.whole,
        output=b"".join(parts).decode(errors="replace") if given.whole else record.tail or "",
    )


def _about(log: AnyBuildLog, given: LogDelivery) -> str:
    """The state of the build, the place of its log, and the part that was given out."""
    record = log.build.record
    if given.whole:
        where = f"from {given.place}"
    else:
        read = f"read up to byte {given.offset}; " if given.offset > 0 else ""
        kept = "now its end, as recorded" if record.tail else "no end of it is recorded"
        where = f"{read}{given.reason}; {kept}{f'; whole log: {record.log}' if record.log else ''}"
    return f"{record.filename}: {log.state}; {where}"
