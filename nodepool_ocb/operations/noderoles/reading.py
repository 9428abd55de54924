"""``noderole list`` and ``show``, and the selection of ``wait``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import selection as expressions
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.operations import following, polling, secrets, selection
from nodepool_ocb.operations.commits import outdated
from nodepool_ocb.operations.names import deployment_of, node_of, noderole_of, role_of
from nodepool_ocb.operations.noderoles import layers
from nodepool_ocb.operations.operation import (
    AwaitedNoderoles,
    Near,
    Operation,
    Right,
    Situation,
    Steps,
    near_noderoles,
    near_nodes,
)
from nodepool_ocb.operations.performer import AnyPerformer, Performer
from nodepool_ocb.operations.reads.noderoles import ReadRuns, RowsOf
from nodepool_ocb.operations.reads.secrets import RevealAttributes
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views import noderoles as shown
from nodepool_ocb.views.noderoles import NoderoleDocument, NoderoleRow, OutdatedRow
from nodepool_ocb.views.view import View


class NoderolesListed(msgspec.Struct, frozen=True):
    """The rows, and the same as outdated ones with their differences, if these were asked for."""

    rows: list[NoderoleRow]
    outdated: list[OutdatedRow] | None = None


class NoderoleList(Operation[NoderolesListed], frozen=True, kw_only=True):
    """Noderoles and their states."""

    noun = "noderole"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadWorld, RowsOf, selection.MatchNoderoles, *outdated.READS)

    states: tuple[str, ...] = ()
    deployment: str | None = None
    node: str | None = None
    role: str | None = None
    selector: str | None = None
    outdated: bool = False  # only these, with their differences
    differences: bool = False  # with a selector of outdated noderoles: their differences, if all are outdated

    @property
    def near(self) -> Near | None:
        if self.node is None:
            return None
        return near_nodes([self.node], self.selector, ancestors=self.outdated)

    def decide(self, situation: Situation) -> Steps[NoderolesListed]:  # noqa: ARG002
        world = yield from ReadWorld()
        for name, find in ((self.deployment, deployment_of), (self.node, node_of), (self.role, role_of)):
            if name is not None:
                find(world, name)
        meant = yield from selection.MatchNoderoles(self.selector)
        found = [each for each in self._near(world) if meant is None or each.name in meant]
        if self.outdated or self._asks_outdated:
            among = yield from outdated.find(world, found)
            if self.outdated or 0 < len(found) == len(among.vertices):
                rows = yield from outdated.rows(world, among)
                return NoderolesListed([], rows)
        return NoderolesListed((yield from RowsOf(found)))

    def _near(self, world: World) -> Iterable[Vertex]:
        """Those that the fields, without the selector, mean."""
        if self.node is not None:
            return filter(self.wanted, node_of(world, self.node).noderoles.values())
        if self.states or (self.deployment, self.node, self.role) != (None, None, None):
            return filter(self.wanted, world.vertices())
        return world.vertices()

    def wanted(self, vertex: Vertex) -> bool:
        """True if the fields, without the selector, mean this noderole."""
        record = vertex.record
        near = self.node in (None, vertex.node.name) and self.role in (None, vertex.role)
        here = self.deployment in (None, record.deployment)
        return near and here and (not self.states or record.state in self.states)

    @property
    def _asks_outdated(self) -> bool:
        if self.selector is None or not self.differences:
            return False
        return expressions.asks_outdated(expressions.parse(self.selector))


def watched(performer: AnyPerformer, operation: NoderoleList) -> Iterator[View]:
    """The rows now, and a row or a ``DeletedNoderole`` for each change; without end."""
    if isinstance(performer, Performer):
        yield from _followed(performer, operation)
        return
    rows: dict[str, NoderoleRow] = {}
    for listed in polling.polled(performer, lambda: operation):
        before, rows = rows, {row.noderole: row for row in listed.rows}
        yield from (row for name, row in rows.items() if before.get(name) != row)
        yield from (shown.DeletedNoderole(name) for name in sorted(before.keys() - rows.keys()))


def _followed(performer: Performer, operation: NoderoleList) -> Iterator[View]:
    for world, touched in following.worlds(performer, None):
        for vertex in sorted(touched.vertices, key=lambda each: each.name):
            if world.vertex(vertex.name) is None:
                yield shown.DeletedNoderole(vertex.name)
            elif operation.wanted(vertex):
                yield shown.row(vertex)


class NoderoleShow(Operation[NoderoleDocument], frozen=True, kw_only=True):
    """One noderole: its record, its neighbours, its attributes, and its runs."""

    noun = "noderole"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadWorld, ReadRuns, RevealAttributes, *layers.READS)

    noderole: str  # ROLE@FQDN
    reveal: bool = False  # secret values in plain text; the performer's host needs the key

    @property
    def near(self) -> Near | None:
        found = near_noderoles([self.noderole])
        return found and replace(found, families=(self.noderole,), ancestors=False)

    def decide(self, situation: Situation) -> Steps[NoderoleDocument]:  # noqa: ARG002
        world = yield from ReadWorld()
        vertex = noderole_of(world, self.noderole)
        own = yield from layers.own(vertex, reveal=self.reveal)
        recorded = yield from ReadRuns(vertex.role, vertex.node.name)
        if self.reveal:
            own = yield from secrets.shown(own)
        return shown.document(vertex, own, recorded)


class NoderoleWait(Operation[tuple[str, ...]], frozen=True, kw_only=True):
    """The noderoles to wait for."""

    noun = "noderole"
    verb = "wait"
    right = Right.VIEWER
    reads = (ReadWorld, selection.ResolveNoderoles)

    noderoles: tuple[str, ...] = ()  # ROLE@FQDN
    selector: str | None = None

    @property
    def near(self) -> Near | None:
        return near_noderoles(self.noderoles, self.selector)

    def decide(self, situation: Situation) -> Steps[tuple[str, ...]]:  # noqa: ARG002
        world = yield from ReadWorld()
        chosen = yield from selection.noderoles(world, self.noderoles, self.selector)
        return tuple(vertex.name for vertex in chosen)

    def awaited(self, answer: tuple[str, ...]) -> AwaitedNoderoles:
        return AwaitedNoderoles(noderoles=answer)
