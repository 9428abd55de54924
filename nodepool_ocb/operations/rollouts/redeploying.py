"""The noderoles that a rollout redeploys, the guards of their nodes, and the data that is lost. Pure: it yields its reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine import installing, reinstalling
from nodepool_ocb.engine.deployments import below
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import State
from nodepool_ocb.operations.commits.losing import losses_of
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.operation import Note, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.noderoles import ReadBlobs

if TYPE_CHECKING:
    from nodepool_ocb.rollout.plan import Again

SHOWN: Final = 3  # names in a sentence
READS: Final = (ReadBlobs, Agreement)


def chosen(world: World, deployment: str, nodes: Iterable[str], roles: Sequence[str]) -> Steps[Again]:
    """The ACTIVE and PROPOSED noderoles of these roles on these nodes. Notes name those that are left out.

    Raises NotFound for an unknown role, Conflict if nothing is left.
    """
    from nodepool_ocb.rollout.plan import Again

    for role in roles:
        if role not in world.roles:
            raise unknown("role", role, world.roles)
    within = set(below(world, deployment))
    there = [vertex for node in nodes for vertex in world.nodes[node].noderoles.values() if vertex.role in roles]
    named = [each for each in there if each.record.deployment in within and not each.unreadable]
    wanted = [each for each in named if each.record.state in (State.ACTIVE, State.PROPOSED)]
    yield from map(Note, _left_out([each for each in named if each not in wanted]))
    words = ", ".join(f"role {role}" for role in dict.fromkeys(roles))
    if not wanted:
        raise Conflict(
            f"nothing of {words} is ACTIVE or PROPOSED on these nodes in deployment {deployment};"
            f" see: nodepool-ocb noderole list --deployment {deployment}"
        )
    found: dict[str, dict[str, int]] = {}
    for vertex in wanted:
        found.setdefault(vertex.node.name, {})[vertex.role] = vertex.record.epoch
    return Again(f"{words}, from the start", found, redeploy=True)


def lost(world: World, taken: Iterable[Vertex]) -> Steps[tuple[str, ...]]:
    """A sentence for each noderole that destroys data. Raises Conflict for an installation without leave or image."""
    ordered = sorted(taken, key=lambda vertex: vertex.name)
    _refuse_without_leave(ordered)
    found = yield from _losses(world, ordered)
    return tuple(found)


def agreed(again: Again, losses: tuple[str, ...], taken: Iterable[Vertex]) -> Steps[None]:
    """Ask for agreement to the data that is lost."""
    names = sorted({vertex.node.name for vertex in taken})
    if losses:
        words = f"redeploy {again.words}, on {counted(len(names), 'node')}, one group after the other"
        yield from Agreement(words, losses, frozenset(names))


def _refuse_without_leave(wanted: Iterable[Vertex]) -> None:
    """Raises Conflict for nodes whose disks may not be erased, all in one sentence."""
    lacking = [
        vertex.node.name
        for vertex in wanted
        if installing.erases(vertex) and not (vertex.node.record and vertex.node.record.allow_install)
    ]
    if lacking:
        raise Conflict(
            f"allow_install is not set of {some(sorted(lacking), SHOWN)}, so their disks may not be erased; leave them out, or"
            f" first: nodepool-ocb node set {' '.join(sorted(lacking)[:SHOWN])} allow_install=true"
        )


def _losses(world: World, wanted: Sequence[Vertex]) -> Steps[list[str]]:
    """A sentence for each noderole that destroys data."""
    losses = yield from losses_of(world, [vertex for vertex in wanted if _boots(vertex)])
    found: list[str] = []
    for vertex in wanted:
        node = vertex.node.record
        if vertex in losses:
            found.append(losses[vertex](node.install if node is not None else None))
        elif vertex.destructive and installing.jig_of(vertex) != installing.RESCUE:
            found.append(f"{vertex.node.name}: role {vertex.role} is destructive, and is run")
    return found


def _boots(vertex: Vertex) -> bool:
    """Whether the data that it erases is known by its wish."""
    if installing.installs(vertex):
        reinstalling.installer(vertex.node)  # raises Conflict for a node with two
    return installing.jig_of(vertex) in installing.ERASING


def _left_out(others: Sequence[Vertex]) -> Iterator[str]:
    if others:
        named = some(sorted(vertex.name for vertex in others), SHOWN)
        yield f"note: {named}: neither ACTIVE nor PROPOSED, and left out; nodepool-ocb noderole redeploy runs it again"
