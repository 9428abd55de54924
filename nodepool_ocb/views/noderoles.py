"""Noderoles: one a row, one with its attributes and runs, and what a run printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.model.records import Json, NodeRole, Run, State
from nodepool_ocb.views.view import View


class NoderoleRow(View, frozen=True, kw_only=True):
    """A noderole at a glance."""

    noderole: str
    state: State
    since: float
    deployment: str
    generation: int
    attempt: int
    run: str | None
    refresh: bool
    once: str | None
    reason: str | None
    by: str | None


class Gone(View, frozen=True):
    """A noderole that was deleted, in a list that is watched."""

    noderole: str
    state: None = None


class Layers(View, frozen=True, kw_only=True):
    """The noderole's own attributes; {} for a layer that nobody set."""

    user: Mapping[str, Json]
    system: Mapping[str, Json]
    wall: Mapping[str, Json]


class RunRow(View, frozen=True):
    """A run that is over."""

    run: str
    record: Run


class NoderoleDocument(View, frozen=True, kw_only=True):
    """One noderole."""

    noderole: str
    record: NodeRole
    children: tuple[str, ...]
    attributes: Layers
    runs: tuple[RunRow, ...]  # the oldest first


class RunOutput(View, frozen=True, kw_only=True):
    """What a run printed."""

    noderole: str
    run: str
    record: Run | msgspec.UnsetType  # none while it is going on
    log: str | None  # HOST:FILE of the whole
    output: str  # the whole where the file is on this host, else its end


def row(vertex: Vertex) -> NoderoleRow:
    """The noderole at a glance."""
    record = vertex.record
    return NoderoleRow(
        noderole=vertex.name,
        state=record.state,
        since=record.since,
        deployment=record.deployment,
        generation=record.generation,
        attempt=record.attempt,
        run=record.run,
        refresh=record.refresh,
        once=record.once,
        reason=record.reason,
        by=record.by,
    )


def document(vertex: Vertex, attributes: Layers, runs: Iterable[tuple[str, Run]]) -> NoderoleDocument:
    """The noderole with its own attributes, and its runs that are over."""
    return NoderoleDocument(
        noderole=vertex.name,
        record=vertex.record,
        children=tuple(child.name for child in vertex.children),
        attributes=attributes,
        runs=tuple(RunRow(name, record) for name, record in runs),
    )


def ended(record: Run) -> str:
    """How a run ended.

    >>> ended(Run(annealer="a", started=1.0, ended=2.0, outcome="failed", generation=1, epoch=1, exit_code=3))
    'failed, exit code 3'
    """
    return f"{record.outcome}, {'no exit code' if record.exit_code is None else f'exit code {record.exit_code}'}"
