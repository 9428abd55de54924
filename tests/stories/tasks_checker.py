"""What became of a run, checked by the times of its history alone: the plan is asked only where times cannot say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from nodepool_ocb.tasks.plan import TaskPlan
from nodepool_ocb.tasks.runs.history import HistoryRow


class Span(NamedTuple):
    """When something was done."""

    name: str  # TASK@NODE, or a stage
    started: float
    ended: float

    def before(self, other: Span) -> bool:
        return self.ended <= other.started

    def overlaps(self, other: Span) -> bool:
        return self.started < other.ended and other.started < self.ended


class Checker:
    """A history. ``rows``: by TASK@NODE or the name of a stage; ``plan``: that of the run, whose nodes are FQDNs."""

    def __init__(self, rows: Mapping[str, HistoryRow], plan: TaskPlan) -> None:
        self.rows = rows
        self._plan = plan

    def meant(self, name: str) -> list[str]:
        """What a node, a task, a stage or TASK@NODE means; at least one."""
        found = [each for each in self.rows if name in (each, *each.split("@"))]
        assert found, f"{name} is nothing of this run: {sorted(self.rows)}"
        return found

    def spans(self, names: Iterable[str]) -> list[Span]:
        return [self._span(each) for name in names for each in self.meant(name)]

    def _span(self, name: str) -> Span:
        row = self.rows[name]
        assert row.started is not None, f"{name} never began: {row.outcome}, {row.reason}"
        assert row.ended is not None, f"{name} never ended: {row.outcome}"
        return Span(name, row.started, row.ended)

    def follows(self, text: str) -> None:
        """``A B then C then D``: all of each had ended when the next began."""
        for first, then in pairwise(self.spans(part.split()) for part in text.split(" then ")):
            late = [(one.name, other.name) for one in first for other in then if not one.before(other)]
            assert not late, f"the second of each began before the first had ended: {late}"

    def beside(self, text: str) -> None:
        """``A beside B``: they overlap, or, as two cores may do one first, nothing in the plan orders them."""
        for one, other in combinations(text.split(" beside "), 2):
            sides = self.spans([one]), self.spans([other])
            if not any(here.overlaps(there) for here in sides[0] for there in sides[1]):
                pairs = [(here.name, there.name) for here in sides[0] for there in sides[1]]
                assert not any(self._ordered(*pair) for pair in pairs), f"one of {one} and {other} waited for the other"

    def _ordered(self, one: str, other: str) -> bool:
        return one in self._above(other) or other in self._above(one)

    def _above(self, name: str) -> set[str]:
        """All that is before it in the plan, with the short names of nodes."""
        names = [short(self._plan.name(vertex)) for vertex in range(len(self._plan))]
        found, left = set[int](), [names.index(name)]
        while left:
            above = set(self._plan.parents[left.pop()]) - found
            found |= above
            left += above
        return {names[vertex] for vertex in found}

    def one_at_a_time(self, node: str) -> None:
        """No two tasks at once on it."""
        ran = [self._span(name) for name in self.meant(node) if self.rows[name].started is not None]
        for one, other in combinations(ran, 2):
            assert not one.overlaps(other), f"{one.name} and {other.name} ran at once"

    def as_the_list_requires(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """``requires`` and ``required_for`` of the documents hold on each node that did both tasks."""
        ran = {name: self._span(name) for name, row in self.rows.items() if row.node and row.started is not None}
        for first, then in required(entries):
            for name, span in ran.items():
                task, _, node = name.partition("@")
                behind = ran.get(f"{then}@{node}") if task == first else None
                assert behind is None or span.before(behind), f"{then} requires {first}: {name}, {then}@{node}"


def required(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Each relation of a document as (before, after)."""
    for entry in entries:
        yield from ((name, entry["id"]) for name in entry.get("requires", ()))
        yield from ((entry["id"], name) for name in entry.get("required_for", ()))


def short(name: str) -> str:
    """TASK@FQDN with the first part of the FQDN."""
    task, at, fqdn = name.partition("@")
    return f"{task}{at}{fqdn.partition('.')[0]}"
