"""A wall clock that is wrong, for one process: Debian's libfaketime, loaded before everything else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: The folder of the module that makes Python sleep correctly under libfaketime.
STARTUP: Final = Path(__file__).parent / "startup"


def skewed(seconds: float) -> dict[str, str]:
    """The environment of a process with a wall clock that is ahead by ``seconds``, or behind; its monotonic clock is
    right.

    Raises FileNotFoundError if libfaketime is not installed.
    """
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        raise FileNotFoundError("libfaketime is not installed: apt-get install libfaketime")
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME": f"{seconds:+.0f}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        "PYTHONPATH": os.pathsep.join([str(STARTUP), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
