"""Logs of runs and builds from a server of the API, by byte offset: the same steps as with the daemons themselves.

A lost answer is asked for again at the same byte, for a while.
"""

from __future__ import annotations

import time
from typing import Final, Generic, TypeVar
from urllib.parse import quote

import msgspec

from nodepool_ocb.errors import Invalid, NotFound, OutcomeUnknown, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.operations import runlogs
from nodepool_ocb.operations.buildlogs import BuildLogSeen
from nodepool_ocb.operations.following import OUTAGE_SECONDS
from nodepool_ocb.operations.logparts import Found, LogPart, LogPlaces, MissingLog, Shorter, Unreached
from nodepool_ocb.operations.logs import BuildChosen, RunChosen
from nodepool_ocb.operations.noderoles.reading import NoderoleShow
from nodepool_ocb.operations.polling import polled
from nodepool_ocb.operations.runlogs import RunLogSeen, RunSeen
from nodepool_ocb.remote.performer import HttpDocument, RemotePerformer

S = TypeVar("S", RunLogSeen, BuildLogSeen)

LOG_STATUSES: Final = (200, 404, 416)


class _DistantLog(Generic[S]):
    """A log at the ``path`` of a server, which answers a look with a ``kind``."""

    def __init__(self, performer: RemotePerformer, path: str, kind: type[S]) -> None:
        self._performer = performer
        self._path = path
        self._decoder: msgspec.json.Decoder[S] = msgspec.json.Decoder(kind)
        self._silent_since: float | None = None
        self.places = LogPlaces("")

    def _look(self) -> S | None:
        """None while the server is silent; raises Unavailable after a long silence, and NotFound."""
        try:
            found: S = self._decoder.decode(self._performer.fetch(f"{self._path}/seen", (200,)).body)
        except (Unavailable, OutcomeUnknown) as silent:
            now = time.monotonic()
            self._silent_since = self._silent_since or now
            if now >= self._silent_since + OUTAGE_SECONDS:
                raise Unavailable(str(silent)) from silent
            return None
        except (msgspec.DecodeError, UnicodeError) as wrong:
            raise Invalid(
                f"the server's answer about the log cannot be read: {wrong}; is it of another version?"
            ) from wrong
        self._silent_since = None
        self.places = found.places
        return found

    def ask(self, offset: int, wait_seconds: float) -> tuple[str, Found]:
        """The place and the piece from a byte on."""
        try:
            answer = self._performer.fetch(f"{self._path}?offset={offset}&wait={wait_seconds:.1f}", LOG_STATUSES)
            return answer.headers.get("log-place", ""), _piece(answer)
        except (Unavailable, OutcomeUnknown, ValueError) as lost:
            return "", Unreached(str(lost))


class DistantRunLog(_DistantLog[RunLogSeen]):
    """The log of a run."""

    regrows = True

    def __init__(self, performer: RemotePerformer, chosen: RunChosen) -> None:
        self.noderole = paths.noderole_name(chosen.role, chosen.node)
        self.jig = chosen.jig
        self.seen = RunSeen(chosen.run, chosen.record)
        path = f"/v1/noderoles/{quote(self.noderole, safe='@')}/runs/{quote(chosen.run, safe='')}/log"
        super().__init__(performer, path, RunLogSeen)
        self.look()

    @property
    def ended(self) -> bool:
        """Whether the run had ended at the last look."""
        return self.seen.ended

    def look(self) -> bool:
        """Ask for the present state; False while the server is silent."""
        try:
            found = self._look()
        except NotFound:  # the noderole was deleted
            self.seen = msgspec.structs.replace(self.seen, noderole=None)
            return True
        self.seen = self.seen if found is None else found.seen
        return found is not None


class DistantBuildLog(_DistantLog[BuildLogSeen]):
    """The log of a build."""

    regrows = False

    def __init__(self, performer: RemotePerformer, chosen: BuildChosen) -> None:
        self.image = chosen.image
        self.build = chosen.build
        self.state = chosen.build.record.state
        self._gone = False
        path = f"/v1/images/{quote(chosen.image, safe='')}/builds/{quote(chosen.build.id, safe='')}/log"
        super().__init__(performer, path, BuildLogSeen)
        self.look()

    @property
    def ended(self) -> bool:
        """Whether nothing is added to the log any more, as of the last look."""
        return self._gone or self.state.value != "building"

    def look(self) -> bool:
        """Ask for the present state; False while the server is silent."""
        try:
            found = self._look()
        except NotFound:  # the build was deleted
            self._gone = True
            return True
        if found is not None:
            self.build, self.state = found.build, found.state
        return found is not None


def end(performer: RemotePerformer, image: str, build: str, most_bytes: int) -> bytes | None:
    """The last bytes of a build's log; None if they cannot be had now."""
    path = f"/v1/images/{quote(image, safe='')}/builds/{quote(build, safe='')}/log?offset={-most_bytes}"
    try:
        found = _piece(performer.fetch(path, LOG_STATUSES))
    except (Unavailable, OutcomeUnknown, NotFound, ValueError):
        return None
    return found.data if isinstance(found, LogPart) else None


def begun(performer: RemotePerformer, name: str) -> None:
    """Return when a noderole runs, or does not wait to run any more; raises NotFound."""
    noted = False
    for shown in polled(performer, lambda: NoderoleShow(noderole=name)):
        if not runlogs.waits(shown.record):
            return
        if not noted:
            runlogs.say_waits(performer, name, shown.record)
            noted = True


def _piece(answer: HttpDocument) -> Found:
    """Raises ValueError for an answer that was cut, and NotFound."""
    ended = answer.headers.get("log-ended") == "yes"
    if answer.status == 404:
        if "log-ended" not in answer.headers:
            raise NotFound("the run or the build does not exist any more")
        return MissingLog(ended)
    if answer.status == 416:
        return Shorter(int(answer.headers.get("log-size", "")))
    if len(answer.body) != int(answer.headers.get("content-length", "")):
        raise ValueError("the answer was cut")
    offset, size = int(answer.headers.get("log-offset", "")), int(answer.headers.get("log-size", ""))
    return LogPart(answer.body, offset, size, ended)
