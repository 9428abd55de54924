"""The pause between two looks at a condition: waiting costs a fifth of a core at most, also where a look is dear.

A look may read all records of a cluster, or ask a daemon for its page of metrics.
"""

from __future__ import annotations

import time
from typing import Final

SHORTEST_SECONDS: Final = 0.02
LONGEST_SECONDS: Final = 0.3
TIMES: Final = 4  # as long as the look took


def rest(since: float) -> float:
    """Pause after a look that began at ``since``, a time of ``time.monotonic``; gives the time at which the next one begins."""
    time.sleep(min(max(SHORTEST_SECONDS, TIMES * (time.monotonic() - since)), LONGEST_SECONDS))
    return time.monotonic()
