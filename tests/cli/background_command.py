"""Commands that run beside a test."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Final

from click.testing import Result

COMMAND: Final = (sys.executable, "-c", "from nodepool_ocb.cli.main import main; main()")


class Later:
    """A command that runs beside the test."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._results: list[Result] = []
        self._thread = threading.Thread(target=lambda: self._results.append(call()), daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return bool(self._results)

    def result(self, timeout_seconds: float = 20.0) -> Result:
        self._thread.join(timeout_seconds)
        assert self._results, "it did not end"
        return self._results[0]


@contextmanager
def begun(hosts: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """A command in a process of its own, with what it prints and what it says beside; waits for its end."""
    command = [*COMMAND, "--zookeeper", hosts, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        yield process, process.stdout, process.stderr
