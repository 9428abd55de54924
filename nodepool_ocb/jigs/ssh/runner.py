"""Our end of a channel on which the machine's runner (runner.sh) takes orders, one at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from nodepool_ocb.jigs.ssh import protocol
from nodepool_ocb.jigs.ssh.link import ENDED, Broken, Lied, Link, shut
from nodepool_ocb.jigs.ssh.protocol import Ear, Frame, Heard, Nonsense, OutOfRange

CHUNK_BYTES: Final = 65536
NOISE_BYTES: Final = 1 << 20  # that a login may print, and a shell complain of
LAST_WORDS_BYTES: Final = 1000
OWED_SECONDS: Final = 30.0  # without a byte of the announced data: the runner's file has shrunk meanwhile
FRAMES: Final = 100  # in answer to one order; a runner needs six


class Runner:
    """A runner on a link, ready for an order. After anything but a whole answer it must be closed, not kept."""

    def __init__(self, link: Link, state_dir: str, timeout_seconds: float) -> None:
        """Start one, and install it first where it is new to the machine; raises Broken or OwnFault."""
        self._link = link
        self._ear = Ear()
        self._noise = b""
        self._noise_bytes = self._frames = 0
        self._heard_at = time.monotonic()
        self._channel = link.channel(protocol.command(state_dir, time.time()), timeout_seconds)
        try:
            self._greet(timeout_seconds)
        except Exception:
            self.close()
            raise

    def send(self, order: bytes) -> None:
        """Raises Broken; the order may have arrived all the same."""
        self._noise_bytes = self._frames = 0
        try:
            self._channel.sendall(order)
        except ENDED as error:
            raise self._link.broken(
                f"the connection to the machine ended, and the run may go on there: {self._link.fault or error}", error
            ) from error

    def hear(self, timeout_seconds: float) -> Iterable[Heard]:
        """The bytes that come within this time, maybe none; raises Broken when nothing can come any more, and OutOfRange."""
        self._channel.settimeout(timeout_seconds)
        try:
            data = self._channel.recv(CHUNK_BYTES)
        except TimeoutError:
            if self._ear.owed and time.monotonic() - self._heard_at > OWED_SECONDS:
                raise Broken(f"{self._ear.owed} bytes that were announced did not come") from None
            if not self._link.alive:
                raise self._link.broken("the machine does not answer any more") from None
            return ()
        except ENDED as error:
            raise self._link.broken(
                f"the connection to the machine ended, and the run may go on there: {self._link.fault or error}", error
            ) from error
        self._link.heard()
        self._heard_at = time.monotonic()
        if not data:
            raise self._link.broken(self._last_words())
        try:
            return [heard for heard in self._ear.hear(data) if self._is_answer(heard)]
        except OutOfRange:
            raise
        except Nonsense as wrong:
            raise Lied(str(wrong)) from wrong

    @property
    def token(self) -> str:
        """Of its channel; drawn by the machine."""
        return self._ear.token

    @property
    def more(self) -> bool:
        """Whether something is here already."""
        return self._channel.recv_ready()

    @property
    def open(self) -> bool:
        """Whether it has not ended, as far as is known here."""
        return not (self._channel.closed or self._channel.eof_received)

    def close(self) -> None:
        """Close the channel; processes on the machine continue."""
        shut(self._channel)

    def _greet(self, timeout_seconds: float) -> None:
        """Wait until it is ready: an order that was sent before could not be told from one that was taken."""
        deadline, sent = time.monotonic() + timeout_seconds, False
        while (left := deadline - time.monotonic()) > 0:
            for heard in self.hear(left):
                if heard == Frame("SEND") and not sent:
                    sent = True
                    self.send(protocol.installation())
                elif heard == Frame("READY"):
                    return
        raise Broken(f"no runner within {timeout_seconds:g} s{self._said()}")

    def _is_answer(self, heard: Heard) -> bool:
        """False for noise: the output of a login and errors of the shell. Raises Nonsense for too much of either."""
        if isinstance(heard, Frame):
            self._frames += 1
            if self._frames > FRAMES:
                raise Nonsense(f"more than {FRAMES} words in answer to one order")
        elif not heard.word:
            self._noise = (self._noise + heard.data[-LAST_WORDS_BYTES:])[-LAST_WORDS_BYTES:]
            self._noise_bytes += len(heard.data)
            if self._noise_bytes > NOISE_BYTES:
                raise Nonsense(f"more than {NOISE_BYTES} bytes that belong to nothing")
            return False
        return True

    def _last_words(self) -> str:
        if self._link.fault:
            return f"the connection to the machine ended, and the run may go on there: {self._link.fault}"
        return f"the machine's runner ended{self._said()}"

    def _said(self) -> str:
        said = " ".join(self._noise.decode("utf-8", "replace").split())
        return f": {said}" if said else ""


def borrow(link: Link, state_dir: str, timeout_seconds: float) -> Runner:
    """A runner of this link that waits for an order, or a new one; raises Broken. Keep it again with ``keep``."""
    with suppress(IndexError):
        while True:
            runner: Runner = link.idle.pop()
            if runner.open:
                return runner
            runner.close()  # it was killed: a runner waits for any number of orders
    return Runner(link, state_dir, timeout_seconds)


def keep(link: Link, runner: Runner) -> None:
    """The runner has answered in full: the next order may have it."""
    link.idle.append(runner)
