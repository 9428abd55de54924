"""One order given to one runner, and everything that comes back until the run has ended.

A short run's output comes with its result. Of a run that takes longer, a second channel follows the output as it grows,
and the result says how many bytes to wait for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs.jig import TAIL_BYTES, Detached, Failed, Fenced, Lost, Order, Outcome, Succeeded, Unreachable
from nodepool_ocb.jigs.output import Output, last_line
from nodepool_ocb.jigs.ssh import protocol
from nodepool_ocb.jigs.ssh.attributes import apply, returned
from nodepool_ocb.jigs.ssh.link import Broken, Link
from nodepool_ocb.jigs.ssh.protocol import (
    ENDINGS,
    EXIT_CODE,
    OUTPUT_BYTES,
    WRITTEN_BYTES,
    Data,
    Frame,
    Heard,
    Nonsense,
    OutOfRange,
    number,
    run_name,
)
from nodepool_ocb.jigs.ssh.runner import Runner, keep

FOLLOW_AFTER_SECONDS: Final = 0.3
LISTEN_SECONDS: Final = 0.2
REST_SECONDS: Final = 30.0  # for the rest of the output of a run that has ended


class Conversation:
    """``outcome`` raises Broken if the connection ends first, and Nonsense if the answer is not that of a runner. The
    caller must then give the same order again.
    """

    def __init__(
        self, order: Order, link: Link, runner: Runner, output: Output, settings: SshSettings, first: bool
    ) -> None:
        """``first``: the order was never given before, and the machine does not tell when it starts the run."""
        self._order, self._link, self._runner, self._output, self._settings = order, link, runner, output, settings
        self._follower: Runner | None = None
        self._followed = 0  # the place in the output of the follower's next byte
        self._inline = 0  # the same, of the output that comes with the result
        self._taken = 0  # bytes of output, from the one or from the other
        self._run = order.run  # or the one that we are attached to
        self._running_since = time.monotonic() if first else None
        self._written: list[bytes] = []
        self._written_bytes = 0
        self._ordered = True  # the run got the inputs of our order

    def outcome(self, stop: threading.Event, deadline: float, held: Callable[[], None]) -> Outcome:
        """``held`` is called when the machine tells that it has taken the order."""
        whole = False
        try:
            while not stop.is_set():
                for heard in self._runner.hear(LISTEN_SECONDS):
                    if (outcome := self._answer(heard, held)) is not None:
                        whole = not isinstance(heard, Data) and not isinstance(outcome, Lost)  # which may end a runner
                        return outcome
                if time.monotonic() > deadline:
                    return Unreachable("run", "the machine's runner did not answer in the run's time")
                self._follow()
            return Detached()
        except OutOfRange as wrong:
            return Failed(str(wrong), None, self._output.tail, None, self._output.file)
        finally:
            if self._follower is not None:
                self._follower.close()
            if whole:
                keep(self._link, self._runner)
            else:
                self._runner.close()

    def _answer(self, heard: Heard, held: Callable[[], None]) -> Outcome | None:
        match heard:
            case Data("OUTPUT", data):
                self._output.take(self._inline, data)
                self._inline += len(data)
                self._taken += len(data)
                return self._flooded(None) if self._taken > OUTPUT_BYTES else None
            case Data("WRITTEN", data):
                return self._take_written(data)
            case Frame("OUTPUT", (start, *_)):
                self._inline = number(start)
            case Frame("STARTED" | "ATTACHED" as how, (run, *_)):
                held()
                self._ordered = True
                self._begin(run_name(run), anew=how == "STARTED")
            case Frame("DONE", (_, word, code, _, size)):
                exit_code = number(code, EXIT_CODE)
                if word not in ENDINGS:
                    raise OutOfRange(f"{word[:20]!r} where the end of a run belongs")
                self._rest(size)
                return self._ended(word, exit_code)
            case Frame("SURPLUS", (size, *_)):
                self._written_bytes = number(size)
            case Frame("FENCED", (epoch, *_)):
                return Fenced(number(epoch))
            case Frame("GONE", words) if self._order.destructive:
                raise Broken(" ".join(words))  # asked again, the machine says whether it was begun
            case Frame("GONE" | "LOST", words):
                return Lost(" ".join(words))
            case Frame("BUSY", words):
                return Unreachable("run", " ".join(words))
            case Frame("BROKEN", words):
                return Failed("the machine's runner: " + " ".join(words))
            case Frame("OTHER"):
                self._ordered = False
            case Frame("WRITTEN"):
                self._written.clear()
                self._written_bytes = 0
            case Frame(word):
                raise Nonsense(f"the word {word[:20]!r}")
        return None

    def _take_written(self, data: bytes) -> Outcome | None:
        """Where it is more than can be kept the connection is cut: no runner sends that."""
        self._written.append(data)
        self._written_bytes += len(data)
        return self._too_much(None) if self._written_bytes > WRITTEN_BYTES else None

    def _flooded(self, code: int | None) -> Outcome:
        said = f"it prints more than {OUTPUT_BYTES} bytes, and was cut off"
        return Failed(said, code, self._output.tail, None, self._output.file)

    def _too_much(self, code: int | None) -> Outcome:
        said = f"write_attribute gave back more than {WRITTEN_BYTES} bytes; none of them is kept"
        return Failed(said, code, self._output.tail, None, self._output.file)

    def _begin(self, run: str, anew: bool) -> None:
        self._run = run
        self._running_since = time.monotonic()
        if anew:
            self._output.restart()
            if self._follower is not None:
                self._follower.close()
                self._follower = None

    def _ended(self, word: str, code: int) -> Outcome:
        order, tail, log = self._order, self._output.tail, self._output.file
        if self._written_bytes > WRITTEN_BYTES:
            return self._too_much(code)
        try:
            data = b"".join(self._written)
            attributes = apply(order.attributes, data)
        except ValueError as wrong:
            return Failed(str(wrong), code, tail, None, log)
        if word == "flooded":
            return self._flooded(code)
        if word == "timeout":
            return Failed(f"timed out after {order.timeout_seconds:g} s", code, tail, attributes, log)
        if code != 0:
            said = "" if order.check else last_line(tail)  # of a check it is a line of the difference
            return Failed(f"exit code {code}{said and f': {said}'}", code, tail, attributes, log)
        return Succeeded(attributes, code, tail, log, self._ordered, returned(attributes, data))

    # -- the output of a longer run --

    def _follow(self) -> None:
        """Open the second channel when it is time, and take the output that it has."""
        if self._follower is None:
            after = FOLLOW_AFTER_SECONDS + self._link.round_trip_seconds  # before that no answer can be here
            due = self._running_since is not None and time.monotonic() - self._running_since >= after
            if not due or self._taken > OUTPUT_BYTES:
                return
            self._follower = Runner(self._link, self._settings.state_dir, self._settings.connect_timeout_seconds)
            self._follower.send(protocol.follow(self._order, self._run, self._output.position))
        while self._follower is not None and self._follower.more:
            self._take_followed(0.0)

    def _take_followed(self, timeout_seconds: float) -> None:
        assert self._follower is not None, "only an open run is read"
        for heard in self._follower.hear(timeout_seconds):
            match heard:
                case Frame("FOLLOWING", (start, *_)):
                    self._followed = number(start)
                case Data("FOLLOWING", data):
                    self._output.take(self._followed, data)
                    self._followed += len(data)
                    self._taken += len(data)
        if self._taken > OUTPUT_BYTES:  # more is not read now: the end is read when the run has ended
            self._follower.close()
            self._follower = None

    def _rest(self, size: str) -> None:
        """Take the rest of the output of an ended run: ``size`` bytes in all, which the result does not carry if a
        follower reads them.
        """
        if size == "-" or self._output.position >= number(size):
            return
        if self._taken > OUTPUT_BYTES:
            self._output.skip(number(size) - TAIL_BYTES)
        self._running_since, self._taken = float("-inf"), 0
        deadline = time.monotonic() + REST_SECONDS
        self._follow()
        while self._output.position < number(size) and self._follower is not None:
            if time.monotonic() > deadline:
                raise Broken(
                    "the run has ended, but the rest of its output did not arrive; the annealer asks for it again"
                )
            self._take_followed(LISTEN_SECONDS)
