"""Mends two faults of libfaketime in a Python process that it was loaded into.

Under it, the clock that Python sleeps by makes every sleep fail (EINVAL): ``time.sleep`` uses another one. It makes a
semaphore and a file in ``/dev/shm`` at start, and a killed process would leave them: they lose their names here, which
it does not need. A child process makes its own.
"""

import contextlib
import os
import select
import time
from typing import SupportsIndex

for _name, _prefix in zip(os.environ.pop("FAKETIME_SHARED", "").split(), ("sem.", ""), strict=False):
    with contextlib.suppress(FileNotFoundError):
        os.unlink("/dev/shm/" + _prefix + _name.removeprefix("/"))


def _sleep(seconds: float | SupportsIndex, /) -> None:
    select.select((), (), (), max(float(seconds), 0.0))


time.sleep = _sleep
