"""``noderole redeploy`` and ``unbind``: the caller agrees to their extent before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from nodepool_ocb.engine import binding, commands, installing, structure
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import State
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.commits import reservations
from nodepool_ocb.operations.commits.losing import losses_of
from nodepool_ocb.operations.noderoles.acting import NoderoleAct, NoderolesChosen
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.noderoles import ReadBlobs
from nodepool_ocb.operations.reads.world import ReadDeletions, ReadWorld


class NoderoleRedeploy(NoderoleAct, frozen=True, kw_only=True):
    """Run noderoles again from the start, even if their roles are destructive and were done.

    Refused without ``force`` if a rollout under way reserves one of them.
    """

    verb = "redeploy"
    reads = (*NoderoleAct.reads, ReadBlobs, Agreement)

    force: bool = False

    def decide(self, situation: Situation) -> Steps[NoderolesChosen]:
        world = yield from ReadWorld()
        found = yield from self.chosen(world)
        done = [f"{each.name}, which is destructive and was {each.record.once}" for each in found if each.record.once]
        lost = yield from _losses(world, found)
        if done and not situation.call.dry_run:
            yield from Agreement(f"run again {'; '.join(done)}", lost)
        chosen = [each for each in found if self.selector is None or _has_run(each)]
        commands.refuse_tasks(chosen)
        chosen.sort(key=lambda each: (world.depth(each), each.name))
        moved = together.decided(world, chosen, lambda each: commands.redeploy(each, situation.now, situation.by))
        yield from reservations.guarded(world, chosen, moved, self.force)
        return NoderolesChosen(chosen=tuple(vertex.name for vertex in found), explanations=lost)


def _losses(world: World, vertices: Iterable[Vertex]) -> Steps[tuple[str, ...]]:
    """The disks that lose their data, as the attributes and the newest wish of the node say: a wish of long ago may name all."""
    lost: list[str] = []
    for vertex in vertices:
        node = vertex.node.record
        if installing.installs(vertex) and node is not None:
            with suppress(Conflict):  # the run gives the reason
                losses = yield from losses_of(world, [vertex])
                lost.append(losses[vertex](node.install))
    return tuple(lost)


def _has_run(vertex: Vertex) -> bool:
    """True if it may be redeployed; a selector leaves out the others."""
    return vertex.record.state not in (State.TRANSITION, State.PROPOSED)


class NoderoleUnbind(Operation[Explained], frozen=True, kw_only=True):
    """Delete noderoles, with the noderoles below that nothing else holds; their effects on the machines stay."""

    noun = "noderole"
    verb = "unbind"
    right = Right.OPERATOR
    reads = (ReadWorld, selection.ResolveNoderoles, selection.ExistingAtFirst, Agreement, ReadDeletions)
    writes = ("noderole", "attributes")

    noderoles: tuple[str, ...] = ()  # ROLE@FQDN
    selector: str | None = None

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        there = frozenset(name for name in self.noderoles if world.vertex(name) is not None)
        first = yield from selection.ExistingAtFirst(there)
        names = [name for name in self.noderoles if name in there or name not in first]
        chosen = yield from selection.noderoles(world, names, self.selector)
        vertices = binding.removable_together(chosen)
        going = frozenset(vertex.name for vertex in vertices)
        if vertices and not situation.call.dry_run:
            yield from _agreed(vertices, going)
        places = (paths.noderole(vertex.role, vertex.node.name) for vertex in vertices)
        units = []
        for place in places:
            deletions = yield from ReadDeletions(place)
            units.append(deletions)
        yield from structure.in_parts(world, units)
        return Explained()


def _agreed(vertices: list[Vertex], going: frozenset[str]) -> Steps[None]:
    """Raises Conflict if a noderole was bound below them after the agreement."""
    done = [vertex.name for vertex in vertices if vertex.record.once]
    again = f"; destructive and done: {', '.join(done)}, which a new bind and commit do again" if done else ""
    named = ", ".join(vertex.name for vertex in vertices)
    theirs = "its" if len(vertices) == 1 else "their"
    agreed = yield from Agreement(f"delete {named} with {theirs} attributes and history{again}", covers=going)
    surprise = [vertex.name for vertex in vertices if vertex.name not in agreed.covers]
    if surprise:
        raise Conflict(
            f"{', '.join(surprise)} was bound below them meanwhile; look, and ask again; see: nodepool-ocb noderole list"
        )
