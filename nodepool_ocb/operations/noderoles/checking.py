"""``noderole check`` and ``noderole drift``: comparisons of machines with the results of their noderoles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine import commands, drift
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import Drift
from nodepool_ocb.model.records import State
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.operation import Explained, Near, Note, Operation, Right, Situation, Steps, near_noderoles
from nodepool_ocb.operations.reads.noderoles import ReadRuns, ReadRunsAt
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views.drift import found as shown
from nodepool_ocb.views.drift.found import DriftRow

NAMED: Final = 5  # noderoles in a sentence


class ChecksAsked(Explained, frozen=True, kw_only=True):
    """The answer of a check: for each noderole the epoch that its check will be above."""

    asked: Mapping[str, int] = msgspec.field(default_factory=dict)


class NoderoleCheck(Operation[ChecksAsked], frozen=True, kw_only=True):
    """Compare machines with the results of ACTIVE noderoles; nothing is changed on them.

    A selector leaves out the noderoles that cannot be checked now.
    """

    noun = "noderole"
    verb = "check"
    right = Right.OPERATOR
    reads = (ReadWorld, selection.ResolveNoderoles)
    writes = ("noderole",)

    noderoles: tuple[str, ...] = ()  # ROLE@FQDN
    selector: str | None = None

    @property
    def near(self) -> Near | None:
        return near_noderoles(self.noderoles, self.selector)

    def decide(self, situation: Situation) -> Steps[ChecksAsked]:
        world = yield from ReadWorld()
        found = yield from selection.noderoles(world, self.noderoles, self.selector)
        chosen = yield from _checkable(world, found, self.selector is not None)
        asked = {vertex.name: drift.before(vertex.record) for vertex in chosen}
        fresh = [vertex for vertex in chosen if vertex.record.check is None]
        yield from commands.apply_to(world, fresh, Event.CHECK, situation.now, situation.by)
        return ChecksAsked(asked=asked)


def _checkable(world: World, chosen: list[Vertex], scope: bool) -> Steps[list[Vertex]]:
    """Raises Conflict if a named noderole cannot be checked, or none of a selector's can."""
    commands.refuse_tasks(chosen)
    refusals = {vertex: why for vertex in chosen if (why := drift.refusal(world, vertex))}
    can = [vertex for vertex in chosen if vertex not in refusals]
    if refusals and (not scope or not can):
        raise Conflict("\n".join(list(dict.fromkeys(refusals.values()))[:NAMED]))
    if refusals:
        yield Note(f"{counted(len(refusals), 'noderole')} cannot be checked now: {_some(refusals.values())}")
    return can


def _some(reasons: Iterable[str]) -> str:
    """The first reason, and the number of the others."""
    first, *others = dict.fromkeys(reasons)
    return f"{first}; and {counted(len(others), 'other reason')}" if others else first


def results(asked: Mapping[str, int]) -> Steps[list[DriftRow]]:
    """The findings of checks that have ended. If a noderole ran again since, its check's record has the finding.

    ``asked``: the epoch that the check of each noderole is above.
    """
    world = yield from ReadWorld()
    vertices = [vertex for name in asked if (vertex := world.vertex(name)) is not None]
    rows = yield from rows_of(vertices)
    since: dict[str, DriftRow] = {}
    for row in rows:
        vertex = world.vertex(row.noderole)
        if row.run is not None or vertex is None:
            continue
        recorded = yield from ReadRuns(vertex.role, vertex.node.name)
        ended = [each for each in recorded if each[0].endswith(drift.CHECK) and each[1].epoch > asked[row.noderole]]
        if ended:
            since[row.noderole] = shown.of_run(vertex, *ended[-1])
    return [since.get(row.noderole, row) for row in rows]


def rows_of(vertices: Iterable[Vertex]) -> Steps[list[DriftRow]]:
    """The rows of noderoles by name, with the records of their newest checks."""
    chosen = sorted(vertices, key=lambda each: each.name)
    checked = [vertex for vertex in chosen if vertex.record.checked is not None]
    runs = yield from ReadRunsAt(tuple(_run_of_check(vertex) for vertex in checked))
    of_check = dict(zip((vertex.name for vertex in checked), runs, strict=True))
    return [shown.row(vertex, of_check.get(vertex.name)) for vertex in chosen]


def _run_of_check(vertex: Vertex) -> str:
    assert vertex.record.checked is not None, "only checked noderoles have one"
    return paths.run(vertex.role, vertex.node.name, vertex.record.checked.run)


class NoderoleCheckResults(Operation[list[DriftRow]], frozen=True, kw_only=True):
    """The findings of checks that have ended."""

    noun = "noderole"
    verb = "check"
    right = Right.VIEWER
    reads = (ReadWorld, ReadRuns, ReadRunsAt)

    asked: Mapping[str, int]  # noderole → the epoch that its check is above

    def decide(self, situation: Situation) -> Steps[list[DriftRow]]:  # noqa: ARG002
        return (yield from results(self.asked))


class DriftListed(msgspec.Struct, frozen=True):
    """The rows of checked noderoles; ``nothing``: the sentence if none has drifted."""

    rows: list[DriftRow]
    nothing: str


class NoderoleDrift(Operation[DriftListed], frozen=True, kw_only=True):
    """The findings of the newest checks: drifted noderoles, and those that could not be compared."""

    noun = "noderole"
    verb = "drift"
    right = Right.VIEWER
    reads = (ReadWorld, selection.ResolveNoderoles, ReadRunsAt)

    noderoles: tuple[str, ...] = ()  # ROLE@FQDN; neither names nor a selector: all
    selector: str | None = None
    everything: bool = False  # also noderoles in sync, and those that were never checked

    def decide(self, situation: Situation) -> Steps[DriftListed]:  # noqa: ARG002
        world = yield from ReadWorld()
        chosen = list(world.vertices())
        if self.noderoles or self.selector is not None:
            chosen = yield from selection.noderoles(world, self.noderoles, self.selector)
        if not self.noderoles:
            chosen = [each for each in chosen if _wanted(world, each, self.everything)]
        rows = yield from rows_of(chosen)
        return DriftListed(rows, _nothing(world))


def _nothing(world: World) -> str:
    """That nothing has drifted, and the share of noderoles that were checked."""
    able = [each for each in world.vertices() if _wanted(world, each, everything=True)]
    looked = sum(each.record.drift is not None for each in able)
    return f"nothing has drifted; of {counted(len(able), 'noderole')} that can be checked, {looked} were"


def _wanted(world: World, vertex: Vertex, everything: bool) -> bool:
    stored = world.roles.get(vertex.role)
    if vertex.record.state is not State.ACTIVE:
        return False
    if everything:
        return stored is not None and drift.checkable(stored.record)
    return vertex.record.drift in (Drift.DRIFTED, Drift.UNKNOWN)
