"""The progress of a wait: a line for people, in one form for all waits."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.views.view import View


class Tally(View, frozen=True):
    """The number of things in each state. The keys of ``counts`` are the words that people read, in the order of the
    sentence; the goal is one of them.
    """

    goal: str
    counts: Mapping[str, int]
    detail: str = ""  # a remark for the end of the sentence

    @property
    def all(self) -> int:
        return sum(self.counts.values())

    @property
    def done(self) -> int:
        return self.counts.get(self.goal, 0)


def sentence(tally: Tally, seconds: float | None = None) -> str:
    """The progress of a wait, and its duration.

    >>> sentence(Tally("ACTIVE", {"ACTIVE": 12, "running": 3, "ERROR": 1, "TODO": 0}), 35.2)
    '12 of 16 ACTIVE, 3 running, 1 ERROR; 0:35'
    """
    rest = (f"{count:,} {word}" for word, count in tally.counts.items() if count and word != tally.goal)
    parts = [f"{tally.done:,} of {tally.all:,} {tally.goal}", *rest]
    said = ", ".join(parts) if tally.counts else ""
    return "; ".join(each for each in (said, tally.detail, "" if seconds is None else lasted(seconds)) if each)


def lasted(seconds: float) -> str:
    """
    >>> lasted(5.0), lasted(65.0), lasted(3725.9)
    ('0:05', '1:05', '1:02:05')
    """
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def bar(done: int, of: int, width: int) -> str:
    """
    >>> bar(1, 4, 8), bar(0, 0, 4)
    ('[##......]', '[....]')
    """
    filled = width * done // of if of else 0
    return f"[{'#' * filled}{'.' * (width - filled)}]"
