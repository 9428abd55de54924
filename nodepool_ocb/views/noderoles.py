"""Noderoles: one a row, one with its attributes and runs, and the output of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine import readiness
from nodepool_ocb.engine.inputs import InputChange
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.model.records import Json, NodeRole, Run, State
from nodepool_ocb.model.secrecy import HIDDEN, hidden
from nodepool_ocb.views.view import View

LONGEST_VALUE: Final = 60  # characters of a value in a sentence
IN_GROUPS: Final = (
    "in groups: the same with --no-noderoles, then nodepool-ocb rollout start STRATEGY --deployment {} --changed"
)


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


class DeletedNoderole(View, frozen=True):
    """A noderole that was deleted, in a list that is watched."""

    noderole: str
    state: None = None


class Layers(View, frozen=True, kw_only=True):
    """The noderole's own attributes; {} for a layer that is not set."""

    user: Mapping[str, Json]
    system: Mapping[str, Json]
    wall: Mapping[str, Json]


class DifferenceRow(View, frozen=True, kw_only=True):
    """One input of the next run that differs from the newest run."""

    what: str  # the place of an attribute; jig, script, or a parameter of the role
    before: Json | msgspec.UnsetType
    now: Json | msgspec.UnsetType
    layer: str | None  # that says so now


class OutdatedRow(View, frozen=True, kw_only=True):
    """A noderole that would be given something else than its newest run was."""

    noderole: str
    deployment: str
    since: float
    differences: tuple[DifferenceRow, ...]
    different: str  # the same as words
    advice: str


class OutdatedIn(View, frozen=True, kw_only=True):
    """The number of outdated noderoles of a deployment."""

    deployment: str
    noderoles: int
    destructive: int  # of these: a commit does not run them
    advice: str


class NoderoleRunRow(View, frozen=True):
    """A run that is over."""

    run: str
    record: Run


class NoderoleDocument(View, frozen=True, kw_only=True):
    """One noderole."""

    noderole: str
    record: NodeRole
    children: tuple[str, ...]
    attributes: Layers
    runs: tuple[NoderoleRunRow, ...]  # the oldest first


class RunOutput(View, frozen=True, kw_only=True):
    """The output of a run."""

    noderole: str
    run: str
    record: Run | msgspec.UnsetType  # none while it is going on
    log: str | None  # HOST:FILE of the whole
    whole: bool  # whether output is that, or the last MiB of it; else it is the end that is recorded
    output: str


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
        reason=readiness.standing(vertex),
        by=record.by,
    )


def document(vertex: Vertex, attributes: Layers, runs: Iterable[tuple[str, Run]]) -> NoderoleDocument:
    """The noderole with its own attributes, and its runs that are over."""
    return NoderoleDocument(
        noderole=vertex.name,
        record=vertex.record,
        children=tuple(sorted(child.name for child in vertex.children)),
        attributes=attributes,
        runs=tuple(NoderoleRunRow(name, record) for name, record in runs),
    )


# -- outdated noderoles --


def outdated(vertex: Vertex, differences: Iterable[InputChange]) -> OutdatedRow:
    """An outdated noderole with the differences of its inputs."""
    rows = tuple(
        DifferenceRow(what=each.what, before=hidden(each.before), now=hidden(each.now), layer=each.layer)
        for each in differences
    )
    return OutdatedRow(
        noderole=vertex.name,
        deployment=vertex.record.deployment,
        since=vertex.record.since,
        differences=rows,
        different="; ".join(map(difference, rows)),
        advice=run_again(vertex),
    )


def difference(row: DifferenceRow) -> str:
    """The value before and now, and the layer that sets it now.

    >>> difference(DifferenceRow(what="ntp/zone", before="UTC", now=msgspec.UNSET, layer=None))
    'ntp/zone: "UTC" -> not set'
    """
    if row.what == "everything":
        return f"the inputs of its newest run are not known: {row.before if row.now is msgspec.UNSET else row.now}"
    if row.what == "script":
        return "its role has another script"
    origin = f" ({row.layer})" if row.layer else ""
    if row.before == row.now == HIDDEN:
        return f"{row.what}: the secret was changed{origin}"
    return f"{row.what}: {_value(row.before)} -> {_value(row.now)}{origin}"


def _value(value: Json | msgspec.UnsetType) -> str:
    if value is msgspec.UNSET:
        return "not set"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def run_again(vertex: Vertex) -> str:
    """The command that runs the noderole again with its present inputs."""
    if vertex.destructive:
        return f"nodepool-ocb noderole redeploy {vertex.name}"
    return f"nodepool-ocb deployment commit {vertex.record.deployment}"


def outdated_in(vertices: Iterable[Vertex]) -> list[OutdatedIn]:
    """The outdated noderoles, by deployment."""
    found: dict[str, list[Vertex]] = {}
    for vertex in vertices:
        found.setdefault(vertex.record.deployment, []).append(vertex)
    return [
        OutdatedIn(
            deployment=name,
            noderoles=sum(each.node.stands_for for each in those),
            destructive=sum(each.node.stands_for for each in those if each.destructive),
            advice=f"nodepool-ocb deployment commit {name}",
        )
        for name, those in sorted(found.items())
    ]


def sentences(vertices: Iterable[Vertex]) -> list[str]:
    """How many noderoles are outdated, and the command that runs them again. One or two sentences for each deployment:
    a second one counts the destructive noderoles. A hint about groups follows if several others are outdated.
    """
    said = []
    for row in outdated_in(vertices):
        left = row.noderoles - row.destructive
        some = counted(left, "noderole is", "noderoles are")
        if left:
            said.append(f"{some} outdated in deployment {row.deployment}: {row.advice} runs {_them(left)} again")
            said += [IN_GROUPS.format(row.deployment)] if left > 1 else []
        if row.destructive:
            some = counted(row.destructive, "destructive noderole is", "destructive noderoles are")
            said.append(
                f"{some} outdated in deployment {row.deployment}, and no commit runs {_them(row.destructive)} again:"
                f" nodepool-ocb noderole list --outdated --deployment {row.deployment}"
            )
    return said


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def ended(record: Run) -> str:
    """How a run ended.

    >>> ended(Run(annealer="a", started=1.0, ended=2.0, outcome="failed", generation=1, epoch=1, exit_code=3))
    'failed, exit code 3'
    """
    return f"{record.outcome}, {'no exit code' if record.exit_code is None else f'exit code {record.exit_code}'}"
