"""The timers of hooks."""

from __future__ import annotations

import time
from typing import Final

from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.timer_kinds import Timer

SEPARATOR: Final = "/"  # between deployment and role in a timer


def schedule(context: AnnealerContext, asked: Timer, subject: str, after_seconds: float = 0.0) -> None:
    """Run the hook ``after_seconds``, and later where other annealers rank before this one for its subject."""
    wait = after_seconds + context.ranking.of(subject) * context.settings.steal_delay_seconds
    context.timers.at(time.monotonic() + wait, asked)
