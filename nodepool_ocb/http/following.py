"""Following a log at any place: at the pages of daemons, or in a file of this host.

The log is given out byte for byte. After a fault, the next piece is asked for from the last byte on, at any place that
has the log then. If another place answers than before, the last bytes that were given out are asked for again and
compared. So the log of a run that was begun anew elsewhere is not taken for its continuation. Memory holds one piece of
the log at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import msgspec

from nodepool_ocb.http import logs
from nodepool_ocb.http.logs import AskedPart, LogAccess, LogPart, MissingLog, Shorter, Unreached

WAIT_SECONDS: Final = 10.0  # that a daemon may wait with its answer until there is more
PAUSE_SECONDS: Final = 0.5  # before a silent place, or an empty file, is asked again
PATIENCE_SECONDS: Final = 5.0  # with a daemon that does not answer, where nothing is added any more
COMPARED_BYTES: Final = 1024
NOTHING_YET: Final = "nothing has been printed yet"
SURE_BYTES: Final = 256  # of the bytes given out, to be found again in a recorded end

Found: TypeAlias = LogPart | MissingLog | Shorter | Unreached
#: The piece from a byte on, waiting for it for some seconds: the place that gave it, and the piece.
AskPiece: TypeAlias = Callable[[int, float], tuple[str, Found]]


class LogPlaces(msgspec.Struct, frozen=True):
    """The places that have a log now."""

    name: str
    addresses: Mapping[str, str] = {}  # HOST:PORT of pages, the likeliest first → HOST:FILE there, where that is known
    file: str | None = None  # HOST:FILE, where that file is on this host and can be read
    reason: str = ""  # why there is neither

    @property
    def known(self) -> bool:
        """Whether there is an address to ask, or a file."""
        return bool(self.addresses or self.file)

    @property
    def path(self) -> Path | None:
        """The file on this host."""
        return Path(self.file.partition(":")[2]) if self.file else None


class LogSource(Protocol):
    """The known facts about a log, as of the last look."""

    #: Whether another daemon, which takes over, begins the log anew, and has less of it for a while.
    regrows: bool

    @property
    def places(self) -> LogPlaces: ...

    @property
    def ended(self) -> bool:
        """Whether nothing is added to it any more."""

    def look(self) -> bool:
        """Read the present facts; False, with the facts unchanged, if they cannot be read."""


class DirectSource(LogSource, Protocol):
    """The same of a log that is asked for at its daemons."""

    @property
    def access(self) -> LogAccess: ...


class LogDelivery(msgspec.Struct):
    """The result: how far the log was given out, and whether that is the whole log."""

    offset: int = 0
    place: str = ""  # the address or file that the newest piece came from
    file: str = ""  # HOST:FILE of the same, where that is known
    whole: bool = False
    reason: str = ""  # why it is not
    end: bytes = b""  # the last bytes that were given out


class Follower:
    """Gives a log to ``out``; ``say`` gets sentences for the person that watches."""

    def __init__(
        self,
        source: LogSource,
        out: Callable[[bytes], None],
        say: Callable[[str], None],
        ask: AskPiece,
        offset: int = 0,
    ) -> None:
        """``ask``: the way to the pieces: ``first``, or a server of the API."""
        self.given = LogDelivery(offset=offset)
        self._source, self._out, self._say = source, out, say
        self._piece = ask
        self._origin = ("", "")  # of the newest piece: the log's name, and the place
        self._silent_since: float | None = None

    def give(self, follow: bool) -> LogDelivery:
        """Give out the log as it is now, or with ``follow`` until nothing is added any more."""
        target: int | None = None  # without follow: the size at the first answer
        for piece in self._pieces(follow):
            self._take(piece)
            target = piece.size if target is None else target
            if self.given.offset >= target if not follow else piece.last and self._ended():
                self.given.whole = True
                break
            if not piece.data:
                self._source.look()  # another daemon may have the log by now
            if piece.last or not piece.data:
                time.sleep(PAUSE_SECONDS)  # a daemon with many waiting clients answers without waiting
        return self.given

    def _take(self, piece: LogPart) -> None:
        self._out(piece.data)
        self.given.offset = piece.reached
        self.given.end = (self.given.end + piece.data)[-COMPARED_BYTES:]

    def _pieces(self, follow: bool) -> Iterator[LogPart]:
        """The pieces from the byte that was reached on; ``given.reason`` has the reason why there are no more."""
        while True:
            found = self._ask(WAIT_SECONDS if follow else 0.0)
            if isinstance(found, LogPart):
                self._silent_since = None
                yield found
            elif isinstance(found, Shorter) and self._growing():
                self._origin = "", ""  # the bytes that it has then are compared
                time.sleep(PAUSE_SECONDS)
                self._source.look()
            elif isinstance(found, Shorter):
                self._say(
                    f"the log has lost its end, from byte {found.size} on: its host went down; reading goes on there"
                )
                self.given.offset, self.given.end = found.size, b""
            elif not self._patient(found, follow):
                return

    def _ask(self, wait_seconds: float) -> Found:
        """The next piece, of the first place that has the log; else the answer of the likeliest place."""
        offset, given, places = self.given.offset, self.given, self._source.places
        place, found = self._piece(offset, wait_seconds)
        if isinstance(found, LogPart) and given.end and (places.name, place) != self._origin:
            place, found = self._piece(offset - len(given.end), 0.0)
            if isinstance(found, LogPart):
                found = self._continued(found, place)
        if isinstance(found, LogPart):
            self._origin = places.name, place
            given.place = place
            given.file = places.addresses.get(place.removeprefix("https://"), places.file or "")
        return found

    def _continued(self, found: LogPart, place: str) -> Found:
        """The bytes after the last ones that were given out, if the piece begins with those."""
        end, offset = self.given.end, self.given.offset
        if found.data.startswith(end):
            return LogPart(found.data[len(end) :], offset, found.size, found.ended)
        if len(found.data) < len(end) and end.startswith(found.data):
            return Shorter(found.reached)
        self._say(f"the log at {place} was written anew; reading from its first byte")
        self.given.offset, self.given.end = 0, b""
        return LogPart(b"", 0, found.size, False)

    def _growing(self) -> bool:
        return self._source.regrows and not self._source.ended

    def _patient(self, found: MissingLog | Unreached, follow: bool) -> bool:
        """Wait for a moment and look again; False where that is of no use any more."""
        given, source = self.given, self._source
        given.reason = _reason(found, source.places.name)
        if self._silent_since is None:
            self._silent_since = time.monotonic()
            if follow and not source.ended:
                again = "waiting" if given.reason == NOTHING_YET else "trying again"
                self._say(f"{given.reason}; {again}, from byte {max(given.offset, 0)} on")
        if not (follow and not source.ended) and (
            not source.places.known
            or isinstance(found, MissingLog)
            or time.monotonic() >= self._silent_since + PATIENCE_SECONDS
        ):
            return False
        time.sleep(PAUSE_SECONDS)
        source.look()
        return True

    def _ended(self) -> bool:
        """Whether its record agrees that nothing is to come.

        While it cannot be read the daemon's word is taken, unless another may have taken over.
        """
        if not self._source.look():
            return not self._source.regrows
        return self._source.ended and self._source.places.name == self._origin[0]


def _reason(found: MissingLog | Unreached, name: str) -> str:
    if isinstance(found, Unreached):
        return found.reason
    return f"{name} is not there" if found.ended else NOTHING_YET


def first(source: DirectSource, offset: int, wait_seconds: float) -> tuple[str, Found]:
    """The answer of the first place that has the log, and that place; else of the likeliest."""
    places = source.places
    said: list[tuple[str, Found]] = []
    for address in places.addresses:
        answer = logs.ask(address, source.access, AskedPart(places.name, offset, wait_seconds))
        if isinstance(answer, LogPart | Shorter):
            return f"https://{address}", answer
        said.append((f"https://{address}", answer))
    if places.file and places.path:
        return str(places.path), logs.read(places.path, offset, source.ended)  # the end as it was looked at before
    return said[0] if said else ("", Unreached(places.reason))


def rest(given: LogDelivery, tail: str) -> bytes | None:
    """The bytes that a recorded end adds to the bytes given out; None if the two do not meet.

    >>> rest(LogDelivery(offset=4, end=b"one\\n"), "two\\n")
    >>> rest(LogDelivery(offset=300, end=b"x" * 299 + b"y"), "x" * 299 + "yz")
    b'z'
    """
    whole, known = tail.encode(), given.end[-SURE_BYTES:]
    if given.offset <= 0:
        return whole
    if len(known) < min(SURE_BYTES, given.offset) or whole.count(known) != 1:
        return None
    return whole.partition(known)[2]
