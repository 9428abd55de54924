"""YAQL, evaluated in a process that is begun by the first expression and ended with ``close``."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from types import TracebackType
from typing import IO, Final, Self

import msgspec

from nodepool_ocb.errors import OcbError
from nodepool_ocb.tasks.conditions.yaql.evaluation import Evaluation, YaqlQuery

WAIT_SECONDS: Final = 60.0  # for an answer, on a machine that has no time for us
TOO_LONG: Final = "it takes more CPU time than allowed: 100 ms, and 10 ms more for each KiB of facts"
COMMAND: Final = (sys.executable, "-P", "-m", "nodepool_ocb.bounded.worker")

_encode = msgspec.json.Encoder().encode
_answer = msgspec.json.Decoder(Evaluation).decode


class Yaql:
    """An ``Evaluator``. For one thread; ``evaluated`` counts the expressions that were sent."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.evaluated = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, question: YaqlQuery) -> Evaluation:
        """The value of an expression, or the reason why it has none: it fails, takes too long or takes too much memory."""
        process = self._process or self._begin()
        self.evaluated += 1
        line = self._exchange(process, _encode(question) + b"\n")
        return _answer(line) if line.endswith(b"\n") else self._ended(process)

    def close(self) -> None:
        """End the process; the next expression begins another."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            _close(pipe)
        process.wait()

    def _begin(self) -> subprocess.Popen[bytes]:
        """Start the process in a session of its own: a terminal's interrupt reaches the parent alone, which ends the process."""
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env=environment, start_new_session=True
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], line: bytes) -> bytes:
        """The answer; without an end if the process ended. Raises OcbError if there is none in time."""
        assert process.stdin is not None
        assert process.stdout is not None
        question, answer = memoryview(line), b""
        deadline = time.monotonic() + WAIT_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdin, selectors.EVENT_WRITE)
            selector.register(process.stdout, selectors.EVENT_READ)
            while not answer.endswith(b"\n"):
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    self.close()
                    raise OcbError(
                        f"YAQL gave no answer in {WAIT_SECONDS:.0f} s: this machine is busy; try again later"
                    )
                if any(key.fileobj is process.stdout for key, _ in ready):
                    part = os.read(process.stdout.fileno(), 1 << 16)
                    answer += part
                    if not part:
                        break
                elif question:
                    question = question[_written(process.stdin, question) :]
                if not question and process.stdin in selector.get_map():
                    selector.unregister(process.stdin)
        return answer

    def _ended(self, process: subprocess.Popen[bytes]) -> Evaluation:
        status = process.wait()
        self.close()
        if status == -signal.SIGPROF:
            return Evaluation(fault=TOO_LONG, hostile=True)
        if status in (-signal.SIGSEGV, -signal.SIGABRT):
            return Evaluation(
                fault=f"it ended the process that evaluates it, by {signal.Signals(-status).name}", hostile=True
            )
        raise OcbError(
            f"the process that evaluates YAQL ended with status {status}; its output above has the cause; try again"
        )


def _written(pipe: IO[bytes], text: memoryview) -> int:
    """The number of bytes taken; all of them if the process has ended, since reading its answer shows the end."""
    try:
        return os.write(pipe.fileno(), text)
    except BrokenPipeError:
        return len(text)


def _close(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return  # the process has ended: the data has no reader
