"""``time.sleep`` that libfaketime does not break: under it, the clock that Python sleeps by makes every sleep fail (EINVAL)."""

import select
import time
from typing import SupportsIndex


def _sleep(seconds: float | SupportsIndex, /) -> None:
    select.select((), (), (), max(float(seconds), 0.0))


time.sleep = _sleep
