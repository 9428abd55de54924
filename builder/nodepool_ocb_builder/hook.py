"""The ``post-upload-hook`` of a provider: a program that accepts or refuses an uploaded image.

It is called as in Nodepool: PROGRAM PROVIDER EXTERNAL-ID FILE, in the builder's environment. Status 0 accepts the image;
with any other the upload has failed, and the image is deleted. It and its processes end with the time of an upload.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import IO, Final

from nodepool_ocb.providers.provider import Item, Refused
from nodepool_ocb.providers.transfer import STOPPED
from nodepool_ocb.telemetry.terminal_escape import visible

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.1
TAIL_BYTES: Final = 4096
READ_SECONDS: Final = 1.0  # for the rest of its output


def verdict(program: str, provider: str, external_id: str, item: Item) -> Refused | None:
    """None where the program takes the image; a program that cannot be started may be there at the next attempt."""
    called = f"post-upload-hook {program}"
    try:
        process = subprocess.Popen(
            [program, provider, external_id, str(item.file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as fault:
        return Refused(f"{called} cannot be started: {fault.strerror}")
    output = _Tail(process.stdout)
    try:
        refused = _ended(process, called, item)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    said = output.text()
    level = logging.WARNING if refused else logging.INFO
    log.log(level, "%s for %s at %s: %s; it said: %s", called, item.external_name, provider, refused or "taken", said)
    return (
        Refused(f"{refused.reason}: {said}" if said and refused is not STOPPED else refused.reason) if refused else None
    )


def _ended(process: subprocess.Popen[bytes], called: str, item: Item) -> Refused | None:
    deadline = time.monotonic() + item.timeout_seconds
    while not item.stop.is_set():
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(LOOK_SECONDS)
            return Refused(f"{called} ended with status {status}") if status else None
        if time.monotonic() > deadline:
            return Refused(f"{called} took longer than {item.timeout_seconds:g} s")
    return STOPPED


class _Tail(threading.Thread):
    """Reads all of an output, and keeps its end."""

    def __init__(self, output: IO[bytes] | None) -> None:
        super().__init__(name="hook", daemon=True)
        assert output is not None
        self._output, self._tail = output, b""
        self.start()

    def run(self) -> None:
        with self._output:
            while data := os.read(self._output.fileno(), TAIL_BYTES):
                self._tail = (self._tail + data)[-TAIL_BYTES:]

    def text(self) -> str:
        """Its last line, harmless."""
        self.join(READ_SECONDS)
        lines = self._tail.decode("utf-8", "replace").splitlines()
        return visible(lines[-1].strip()) if lines else ""
