"""``time.sleep`` that libfaketime does not break: under it, the clock that Python sleeps by makes every sleep fail (EINVAL)."""

import select
import time


def _sleep(seconds: float, /) -> None:
    select.select((), (), (), max(seconds, 0.0))


time.sleep = _sleep
