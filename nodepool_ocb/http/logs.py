"""Logs over HTTP: the page on which a daemon serves the logs of its work, and reading such a page.

``GET /logs/NAME?offset=N&wait=S`` gives at most 256 KiB of the log NAME from byte N; a negative N counts from its end.
If there is no byte beyond N yet, the answer waits for one, S seconds at most. ``Log-Offset`` says where the piece
begins, ``Log-Size`` how large the log is, and ``Log-Ended: yes`` that nothing will be added. 404: there is no such log
(with ``Log-Ended: no``: not yet). 416: it is shorter than N. A client that asks again at the offset that it has reached
misses nothing and gets nothing twice.

Only plain files of one folder are served, by names that cannot lead out of it; links are not followed. A name is one
word, of a build, or FOLDER/WORD, of a run. Readers connect over TLS, and prove that they have a key of the cluster
(docs/security.md).
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from nodepool_ocb.http.certificates import PinnedConnection
from nodepool_ocb.http.connections import CONNECTIONS
from nodepool_ocb.http.page import PageResponse
from nodepool_ocb.http.proofs import proof

PIECE_BYTES: Final = 256 * 1024
WAIT_SECONDS: Final = 20.0  # that an answer waits for more, at most
LOOK_SECONDS: Final = 0.1  # a file does not report that it grew
WAITING: Final = CONNECTIONS // 2  # answers that wait at a time; others are given at once
PATIENCE_SECONDS: Final = 5.0  # for an answer, beyond the wait that was asked of it

_WORD: Final = r"[A-Za-z0-9_][A-Za-z0-9_.+~@-]{0,249}"
_NAME: Final = re.compile(f"({_WORD}/)?{_WORD}")
_OFFSET: Final = re.compile(r"-?[0-9]{1,15}")


class LogPart(msgspec.Struct, frozen=True):
    """A part of a log, from ``offset`` on; ``ended``: nothing will be added to the ``size`` that it has."""

    data: bytes
    offset: int
    size: int
    ended: bool

    @property
    def reached(self) -> int:
        """The offset behind it."""
        return self.offset + len(self.data)

    @property
    def last(self) -> bool:
        """Nothing comes after it."""
        return self.ended and self.reached >= self.size


class MissingLog(msgspec.Struct, frozen=True):
    """There is no such log there; ``ended``: nor will there be."""

    ended: bool


class Shorter(msgspec.Struct, frozen=True):
    """The log is shorter than the part that was read: its host lost bytes that were not on its disk yet."""

    size: int


class Unreached(msgspec.Struct, frozen=True):
    """No daemon answered, or the answer was cut: ask again at the same offset."""

    reason: str


class LogAccess(msgspec.Struct, frozen=True):
    """The means to read logs at daemons."""

    certificates: Mapping[str, str] = {}  # HOST:PORT of pages → the digest of the certificate there
    keys: tuple[str, ...] = ()  # of the cluster, private; the newest first
    reason: str = ""  # why there is none


def of_run(role: str, fqdn: str, run: str) -> str:
    """The name of the log of a run.

    >>> of_run("base", "n1.example.com", "0000000003-c0ffee10")
    'n1.example.com/base-0000000003-c0ffee10'
    """
    return f"{fqdn}/{role}-{run}"


def file_of(folder: str | Path, name: str) -> Path:
    """The file of the log NAME in a daemon's folder of logs."""
    return Path(folder, f"{name}.log")


# -- serving --


class LogPage:
    """The page ``logs`` of a daemon with logs ``FOLDER/NAME.log``; ``folder`` and ``ended`` are called on any thread.

    ``folder``: None if no logs are kept now; ``ended(NAME)``: nothing is written to that log now.
    """

    def __init__(self, folder: Callable[[], Path | None], ended: Callable[[str], bool]) -> None:
        self._folder = folder
        self._ended = ended
        self._waiting = threading.BoundedSemaphore(WAITING)

    def __call__(self, rest: str, query: Mapping[str, str]) -> PageResponse:
        name = unquote(rest)
        offset = query.get("offset", "0")
        wait = query.get("wait", "0")
        if not _NAME.fullmatch(name):
            return PageResponse(404, b"no log has such a name\n")
        if not (_OFFSET.fullmatch(offset) and re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", wait)):
            return PageResponse(400, b"offset and wait are numbers\n")
        return _answer(self._awaited(name, int(offset), min(float(wait), WAIT_SECONDS)))

    def _awaited(self, name: str, offset: int, seconds: float) -> LogPart | MissingLog | Shorter:
        piece = self._piece(name, offset)
        if not _open(piece) or not seconds or not self._waiting.acquire(blocking=False):
            return piece
        try:
            ends = time.monotonic() + seconds
            while _open(piece) and time.monotonic() < ends:
                time.sleep(LOOK_SECONDS)
                piece = self._piece(name, offset)
        finally:
            self._waiting.release()
        return piece

    def _piece(self, name: str, offset: int) -> LogPart | MissingLog | Shorter:
        ended = self._ended(name)  # asked before the file is read: then the file is complete
        *above, last = name.split("/")
        try:
            with _entered(self._folder(), above) as folder:
                return read(Path(f"{last}.log"), offset, ended, folder)
        except OSError:
            return MissingLog(ended)


@contextlib.contextmanager
def _entered(folder: Path | None, below: Sequence[str]) -> Iterator[int]:
    """A descriptor of the folder, or of one below it that no link leads to; raises OSError."""
    if folder is None:
        raise FileNotFoundError("no logs are kept")
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
    with contextlib.ExitStack() as stack:
        entered = os.open(folder, flags)
        stack.callback(os.close, entered)
        for name in below:
            entered = os.open(name, flags | os.O_NOFOLLOW, dir_fd=entered)
            stack.callback(os.close, entered)
        yield entered


def _open(piece: LogPart | MissingLog | Shorter) -> bool:
    """Whether it pays to wait for more."""
    match piece:
        case LogPart(data=b"", ended=False) | MissingLog(ended=False):
            return True
    return False


def _answer(piece: LogPart | MissingLog | Shorter) -> PageResponse:
    if isinstance(piece, MissingLog):
        return PageResponse(404, b"there is no such log\n", {"Log-Ended": _word(piece.ended)})
    if isinstance(piece, Shorter):
        return PageResponse(416, b"the log is shorter\n", {"Log-Size": str(piece.size)})
    headers = {
        "Content-Type": "application/octet-stream",  # so that no browser takes the output of a build for a page
        "X-Content-Type-Options": "nosniff",
        "Log-Offset": str(piece.offset),
        "Log-Size": str(piece.size),
        "Log-Ended": _word(piece.ended),
    }
    return PageResponse(200, piece.data, headers)


def _word(ended: bool) -> str:
    return "yes" if ended else "no"


def read(file: Path, offset: int, ended: bool, folder: int | None = None) -> LogPart | MissingLog | Shorter:
    """A part of a log on this host; MissingLog if it is no plain file or cannot be read.

    ``folder``: a descriptor of the folder of ``file``, if that is a name alone.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a FIFO would never end
    try:
        descriptor = os.open(file, flags, dir_fd=folder)
    except OSError:
        return MissingLog(ended)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return MissingLog(ended)
        start = max(0, status.st_size + offset) if offset < 0 else offset
        if start > status.st_size:
            return Shorter(status.st_size)
        data = os.pread(descriptor, min(PIECE_BYTES, status.st_size - start), start)
        return LogPart(data, start, status.st_size, ended)
    finally:
        os.close(descriptor)


def readable(file: Path | str) -> bool:
    """Whether ``read`` would give something."""
    return not isinstance(read(Path(file), -1, True), MissingLog)


# -- reading --


class AskedPart(msgspec.Struct, frozen=True):
    """The part of a log that is asked for. Each wait for bytes ends within the sum of the two times."""

    name: str
    offset: int = 0
    wait_seconds: float = 0.0
    patience_seconds: float = PATIENCE_SECONDS


def ask(address: str, access: LogAccess, asked: AskedPart) -> LogPart | MissingLog | Shorter | Unreached:
    """A part of a log that a daemon serves at HOST:PORT.

    After a change of the key of the cluster, a daemon may know only the former one for a moment: each key is tried.
    """
    certificate = access.certificates.get(address)
    if certificate is None:
        return Unreached(f"{address}: the daemon has registered no certificate; is it of an older version? update it")
    refusal = access.reason or "there is no key of the cluster"
    for key in access.keys:
        try:
            return _asked(address, certificate, key, asked)
        except PermissionError as error:
            refusal = str(error)
        except (OSError, ValueError, http.client.HTTPException) as error:
            return Unreached(f"{address}: {error or type(error).__name__}")
    return Unreached(f"{address}: {refusal}")


def _asked(address: str, certificate: str, key: str, asked: AskedPart) -> LogPart | MissingLog | Shorter:
    """Raises PermissionError if the daemon does not take the key, and OSError, ValueError and HTTPException."""
    host, _, port = address.rpartition(":")
    path = f"/logs/{quote(asked.name, safe='')}?offset={asked.offset}&wait={asked.wait_seconds:.1f}"
    patience = asked.patience_seconds
    with contextlib.closing(PinnedConnection(host.strip("[]"), int(port), patience, certificate)) as to:
        to.connect()
        to.sock.settimeout(asked.wait_seconds + patience)
        to.request("GET", path, headers={"Authorization": proof(key, certificate)})
        return _understood(to.getresponse(), asked.offset)


def _understood(answer: http.client.HTTPResponse, offset: int) -> LogPart | MissingLog | Shorter:
    """Raises ValueError if the answer was cut, is no such page, or is another part than the one from ``offset`` on.

    Raises PermissionError for a refused proof.
    """
    ended = answer.getheader("Log-Ended", "") == "yes"
    if answer.status == 404:
        return MissingLog(ended)
    if answer.status == 416:
        return Shorter(int(answer.getheader("Log-Size", "")))
    if answer.status == 403:
        raise PermissionError("the daemon does not take the key of the cluster")
    if answer.status != 200:
        raise ValueError(f"it answered {answer.status} {answer.reason}")
    data = answer.read(PIECE_BYTES + 1)
    if len(data) != int(answer.getheader("Content-Length", "")):
        raise ValueError("the answer was cut")
    piece = LogPart(data, int(answer.getheader("Log-Offset", "")), int(answer.getheader("Log-Size", "")), ended)
    if 0 <= offset != piece.offset:
        raise ValueError(f"its answer begins at byte {piece.offset}, not at byte {offset}")
    return piece
