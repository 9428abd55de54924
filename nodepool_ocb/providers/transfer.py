"""A file on its way to a provider: read once, compared with its checksum, stopped on request or out of time. Also the
pace at which a provider is asked.

``Stream`` is the file as its sender sees it. ``attended`` sends it, and returns in time even if the provider falls
silent in an answer.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

from nodepool_ocb.providers.provider import Item, Refused, Sent

BLOCK_BYTES: Final = 1 << 20
LOOK_SECONDS: Final = 0.1  # between two looks at whether to give up
GRACE_SECONDS: Final = 2.0  # in which a sending that was given up may end by itself

STOPPED: Final = Refused("the upload was stopped")


class Pace:
    """Lets operations begin one after the other, ``seconds`` apart; for any number of threads."""

    def __init__(self, seconds: float) -> None:
        self._seconds = max(0.0, seconds)
        self._lock = threading.Lock()
        self._next = 0.0  # monotonic

    def wait(self) -> None:
        """Until the next operation may begin."""
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next)
            self._next = at + self._seconds
        time.sleep(at - now)


class GivenUp(Exception):
    """Reading ended early."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.refused = refused


class Stream:
    """An item's file, to be read once from begin to end; a context manager.

    Its last block is given only if the whole file has its checksum: a provider never gets all of a file that changed.
    It has a length, so that clients of HTTP announce it. ``fault`` has the reason of a stop; clients wrap the
    exceptions of a stream.
    """

    def __init__(self, item: Item) -> None:
        self.fault: Refused | None = None
        self._item = item
        self._deadline = time.monotonic() + item.timeout_seconds
        self._hash = hashlib.sha256()
        self._left = item.size
        self._ended = False

    def __enter__(self) -> Stream:
        if not self._item.size:
            raise self._given_up(f"{self._item.file} is empty; build the image again", lasting=True)
        try:
            self._file = self._item.file.open("rb")
        except OSError as error:
            raise self._unread(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._item.size

    def read(self, size: int = BLOCK_BYTES) -> bytes:
        """The next block, empty at the end. Raises GivenUp."""
        if self._ended:  # a client that repeats a request would send nothing, and wait for ever
            raise self._given_up("the provider wanted the file a second time", lasting=False)
        refused = why_give_up(self._item, self._deadline)
        if refused is not None:
            raise self._given_up(refused.reason, refused.lasting)
        try:
            block = self._file.read(min(size, self._left) if size >= 0 else self._left)
        except OSError as error:
            raise self._unread(error) from error
        self._hash.update(block)
        self._left -= len(block)
        self._ended = not block
        if not block or not self._left:
            self._compare()
        return block

    def _compare(self) -> None:
        file, size = self._item.file, self._item.size
        if self._left or self._file.read(1):
            raise self._given_up(
                f"{file} does not have the {size} bytes that its build recorded; build the image again", lasting=True
            )
        if self._hash.hexdigest() != self._item.sha256:
            raise self._given_up(f"{file} does not match its sha256; build the image again", lasting=True)

    def _unread(self, error: OSError) -> GivenUp:
        """Lasting only where the file is gone: anything else may be a fault of this host."""
        reason = f"{self._item.file} cannot be read: {error.strerror}"
        return self._given_up(reason, lasting=isinstance(error, FileNotFoundError))

    def _given_up(self, reason: str, lasting: bool) -> GivenUp:
        self.fault = Refused(reason, lasting)
        return GivenUp(self.fault)


def why_give_up(item: Item, deadline: float) -> Refused | None:
    """Whether to give up by now; ``deadline`` is a time of the monotonic clock."""
    if item.stop.is_set():
        return STOPPED
    if time.monotonic() > deadline:
        return Refused(f"the upload took longer than {item.timeout_seconds:g} s")
    return None


def attended(item: Item, send: Callable[[], Sent | Refused], undo: Callable[[], None]) -> Sent | Refused:
    """The result of ``send``, or Refused soon after the item is stopped or its time is over.

    If ``send`` has not ended by then, it continues in its thread until its own time-outs end it. ``undo`` deletes the
    object that it made, now and again when it ends.
    """
    deadline = time.monotonic() + item.timeout_seconds
    sending = _Sending(send, undo)
    if item.stop.is_set():
        return STOPPED
    sending.start()
    while (refused := why_give_up(item, deadline)) is None:
        sending.join(LOOK_SECONDS)
        if not sending.is_alive():
            return sending.result()
    sending.join(GRACE_SECONDS)
    if sending.abandon():
        undoing = threading.Thread(target=undo, name="undoing", daemon=True)
        undoing.start()
        undoing.join(GRACE_SECONDS)  # a silent provider may be silent here too
        return refused
    return sending.result()


class _Sending(threading.Thread):
    def __init__(self, send: Callable[[], Sent | Refused], undo: Callable[[], None]) -> None:
        super().__init__(name="sending", daemon=True)
        self._send, self._undo = send, undo
        self._lock = threading.Lock()
        self._abandoned = False
        self._outcome: Sent | Refused | BaseException | None = None

    def run(self) -> None:
        try:
            outcome: Sent | Refused | BaseException = self._send()
        except BaseException as error:  # raised again for the waiting thread
            outcome = error
        with self._lock:
            self._outcome = outcome
        if self._abandoned:
            self._undo()

    def abandon(self) -> bool:
        """Whether the sending still continues; then it deletes its object at its end."""
        with self._lock:
            self._abandoned = self._outcome is None
            return self._abandoned

    def result(self) -> Sent | Refused:
        assert self._outcome is not None, "it has ended"
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome
