"""The recent runs of noderoles, and those that run or wait now: one lane for each node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.model.records import Run, State
from nodepool_ocb.views.view import View

MOST_NODES: Final = 100
MOST_RUNS: Final = 1_500  # that are read
MOST_EACH: Final = 10  # of one noderole; no more are kept

#: The states of a noderole that runs, or waits for others or for an annealer.
UNDER_WAY: Final = (State.TRANSITION, State.TODO, State.BLOCKED)


class RunBar(View, frozen=True, kw_only=True):
    """A run that has ended. From ``queued`` to ``started`` it waited for an annealer alone."""

    noderole: str
    run: str
    outcome: str
    queued: float | None
    started: float
    ended: float


class PresentBar(View, frozen=True, kw_only=True):
    """A noderole that runs or waits now, since this time."""

    noderole: str
    state: State
    since: float
    reason: str | None


class RunTimeline(View, frozen=True, kw_only=True):
    """``nodes`` are the lanes, sorted."""

    nodes: tuple[str, ...]
    runs: tuple[RunBar, ...]
    present: tuple[PresentBar, ...]
    now: float
    nodes_left_out: int  # they changed before those that are shown
    runs_each: int  # so many of the newest runs of each noderole were read


def lanes(vertices: Iterable[Vertex]) -> tuple[list[Vertex], int]:
    """The noderoles of the nodes that changed last, and the number of nodes that are left out."""
    by_node: dict[str, list[Vertex]] = {}
    for vertex in vertices:
        by_node.setdefault(vertex.node.name, []).append(vertex)
    latest = sorted(by_node.values(), key=lambda those: (-max(each.record.since for each in those), those[0].node.name))
    kept: list[Vertex] = []
    nodes = 0
    for those in latest[:MOST_NODES]:
        if kept and len(kept) + len(those) > MOST_RUNS:
            break
        kept += those
        nodes += 1
    return sorted(kept, key=lambda vertex: (vertex.node.name, vertex.role)), len(by_node) - nodes


def runs_each(noderoles: int) -> int:
    """The number of runs that are read of each of so many noderoles.

    >>> runs_each(1), runs_each(500), runs_each(9000)
    (10, 3, 1)
    """
    return max(1, min(MOST_EACH, MOST_RUNS // max(1, noderoles)))


def timeline(
    shown: Sequence[Vertex], runs: Iterable[Sequence[tuple[str, Run]]], now: float, left_out: int
) -> RunTimeline:
    """``runs`` has those of each noderole, in the same order."""
    bars = (
        RunBar(
            noderole=vertex.name,
            run=name,
            outcome=run.outcome,
            queued=run.queued,
            started=run.started,
            ended=run.ended,
        )
        for vertex, found in zip(shown, runs, strict=True)
        for name, run in found
    )
    return RunTimeline(
        nodes=tuple(dict.fromkeys(vertex.node.name for vertex in shown)),
        runs=tuple(bars),
        present=tuple(_present(vertex) for vertex in shown if vertex.record.state in UNDER_WAY),
        now=now,
        nodes_left_out=left_out,
        runs_each=runs_each(len(shown)),
    )


def _present(vertex: Vertex) -> PresentBar:
    record = vertex.record
    return PresentBar(noderole=vertex.name, state=record.state, since=record.since, reason=record.reason)
