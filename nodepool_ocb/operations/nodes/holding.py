"""``node hold``: nothing new begins on nodes for a while."""

from __future__ import annotations

from itertools import chain
from typing import Final

from nodepool_ocb.engine import maintenance, nodes
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView, Vertex
from nodepool_ocb.model.records import Change, State
from nodepool_ocb.operations import outside, selection
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld

NAMED: Final = 12  # nodes in a command


class NodesHeld(Explained, frozen=True, kw_only=True):
    """The answer of a hold."""

    held: tuple[str, ...] = ()  # nodes
    until: float | None = None  # seconds since the epoch; None: until a person ends it
    release: str = ""  # the command that ends it
    running: tuple[str, ...] = ()  # noderoles that go on to their end


class NodeHold(Operation[NodesHeld], frozen=True, kw_only=True):
    """Set nodes aside: nothing new begins there, and they are not probed. Refused if another person holds one."""

    noun = "node"
    verb = "hold"
    right = Right.OPERATOR
    reads = (ReadWorld, selection.ResolveNodes)
    writes = ("node", "noderole")

    nodes: tuple[str, ...] = ()
    selector: str | None = None
    reason: str
    until: float | None = None  # seconds since the epoch
    seconds: float | None = None  # from now; not beside ``until``
    force: bool = False  # cancel running noderoles

    def decide(self, situation: Situation) -> Steps[NodesHeld]:
        end = situation.end(self.until, self.seconds)
        world = yield from ReadWorld()
        chosen = yield from selection.nodes(world, self.nodes, self.selector)
        names = [view.name for view in chosen]

        def one(view: NodeView) -> list[Change]:
            held = nodes.hold(world, view.name, situation.by, self.reason, situation.now, end, end=self.force)
            return list(chain(*held))

        units = together.decided(world, chosen, one)
        yield from units
        if units and situation.call.dry_run:
            return NodesHeld()
        after = yield from ReadWorld()
        held = selection.nodes_again(after, names, resolved=self.selector is not None)
        found = [view.name for view in held]
        running = [] if self.force else list(_running(held))
        own = situation.own(after, running)
        return NodesHeld(
            notes=outside.left_alone(len(running) - len(own), "goes on to its end", "go on to their end"),
            held=tuple(found),
            until=end,
            release=maintenance.releasing(" ".join(found) if len(found) <= NAMED else "FQDN..."),
            running=tuple(vertex.name for vertex in own),
        )


def _running(views: list[NodeView]) -> list[Vertex]:
    busy = (view.busy for view in views if view.busy is not None)
    return [each for each in busy if each.record.state is State.TRANSITION and each.record.cancel_reason is None]
