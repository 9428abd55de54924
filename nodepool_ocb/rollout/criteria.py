"""Success criteria, with whole numbers (seed 003): 29 of 100 are 29 percent.

They count over all members of a group. A node that is not started is not successful; one that is unknown counts as
failed. An empty group fails a minimum above 0, and passes the rest. Without criteria everything passes.
"""

from __future__ import annotations

import msgspec

from nodepool_ocb.rollout.strategy import Criteria


class Count(msgspec.Struct, frozen=True):
    """How the members of a group have fared in a phase."""

    members: int
    successful: int
    failed: int

    def __str__(self) -> str:
        return f"{self.successful} of {self.members} successful, {self.failed} failed"


def unmet(criteria: Criteria, count: Count) -> tuple[str, ...]:
    """A sentence for each criterion that is not met, with its numbers; empty when all are.

    >>> unmet(Criteria(percent_successful_nodes=30, minimum_successful_nodes=29), Count(100, 29, 71))
    ('percent_successful_nodes: 30 wanted, 29 of 100 (29%) successful',)
    """
    return _sentences(criteria, count, "{} successful")


def hopeless(criteria: Criteria, count: Count) -> tuple[str, ...]:
    """The criteria that cannot be met any more, even if every member that has not failed succeeds.

    >>> hopeless(Criteria(percent_successful_nodes=100), Count(5, 0, 1))
    ('percent_successful_nodes: 100 wanted, at most 4 of 5 (80%) can still succeed',)
    """
    best = count.members - count.failed
    words = "{} successful" if best == count.successful else "at most {} can still succeed"
    return _sentences(criteria, Count(count.members, best, count.failed), words)


def bearable(criteria: Criteria, members: int) -> int:
    """How many of so many members may fail so that every criterion can still be met.

    >>> half, nine = Criteria(percent_successful_nodes=50), Criteria(minimum_successful_nodes=9)
    >>> bearable(half, 5), bearable(nine, 5), bearable(Criteria(), 5)
    (2, 0, 5)
    """
    percent, least, most = _of(criteria)
    needed = max(-(-(percent or 0) * members // 100), least or 0)
    return max(0, min(members - needed, members if most is None else most))


def _sentences(criteria: Criteria, count: Count, words: str) -> tuple[str, ...]:
    """A sentence for each criterion that is not met; ``words`` has braces for the number of successful nodes."""
    wanted = []
    percent, least, most = _of(criteria)
    if percent is not None and count.successful * 100 < percent * count.members:
        part = count.successful * 100 // count.members
        ratio = f"{count.successful} of {count.members} ({part}%)"
        wanted.append(f"percent_successful_nodes: {percent} wanted, {words.format(ratio)}")
    if least is not None and count.successful < least:
        wanted.append(f"minimum_successful_nodes: {least} wanted, {words.format(count.successful)}")
    if most is not None and count.failed > most:
        wanted.append(f"maximum_failed_nodes: {most} allowed, {count.failed} failed")
    return tuple(wanted)


def so_far(criteria: Criteria, part: Count, whole: Count) -> tuple[str, ...]:
    """The criteria that are not met after some batches: the percentage of these, and all that the whole cannot meet any more.

    >>> so_far(Criteria(percent_successful_nodes=50, minimum_successful_nodes=3), Count(2, 1, 1), Count(9, 1, 1))
    ()
    """
    percentage = Criteria(percent_successful_nodes=criteria.percent_successful_nodes)
    return tuple(dict.fromkeys((*unmet(percentage, part), *hopeless(criteria, whole))))


def _of(criteria: Criteria) -> tuple[int | None, int | None, int | None]:
    return criteria.percent_successful_nodes, criteria.minimum_successful_nodes, criteria.maximum_failed_nodes
