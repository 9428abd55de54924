"""Which functions the daemons of a test call. Each process notes the first call of each function.

``tools/mutation/startup/sitecustomize.py`` looks for ``REACHED`` in the environment when Python starts. A line is written
at the call itself, so that a daemon that is killed has noted all that it called.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

REACHED: Final = "OCB_REACHED"  # in the environment: the file for the notes
ROOT: Final = f"{Path(__file__).resolve().parents[2]}/"
PRODUCT: Final = (f"{ROOT}nodepool_ocb/", f"{ROOT}annealer/")


class Notes:
    """The records of daemons; each line is FILE::FUNCTION."""

    def __init__(self, file: Path) -> None:
        self.file, self._read = file, 0
        file.touch()

    def new(self) -> set[str]:
        """The text written since the last call."""
        data = self.file.read_bytes()[self._read :]
        self._read += len(data)
        return set(data.decode().splitlines())


def started() -> None:
    """Note the calls of this process and of those that it forks."""
    notes = os.open(os.environ[REACHED], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.set_inheritable(notes, False)
    seen: set[CodeType] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code not in seen:
            seen.add(code)
            if code.co_filename.startswith(PRODUCT):
                name = code.co_qualname.partition(".<locals>")[0]
                os.write(notes, f"{code.co_filename.removeprefix(ROOT)}::{name}\n".encode())

    os.register_at_fork(after_in_child=seen.clear)
    threading.setprofile(called)
    sys.setprofile(called)
