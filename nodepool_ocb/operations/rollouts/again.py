"""The ACTIVE noderoles that a rollout runs again: those of named roles, outdated ones, or both. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.deployments import below
from nodepool_ocb.engine.noderole import refreshable, renewing
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model.records import State
from nodepool_ocb.operations.commits import outdated
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.operation import Note, Steps

if TYPE_CHECKING:
    from nodepool_ocb.rollout.plan import Again
    from nodepool_ocb.rollout.records import Rollout

SHOWN: Final = 3  # names in a sentence


def chosen(
    world: World, deployment: str, nodes: Iterable[str], roles: Sequence[str], changed: bool
) -> Steps[Again | None]:
    """The noderoles to run again on these nodes, of ``roles`` and with ``changed`` outdated ones; None if neither is asked.

    Notes name destructive noderoles and those in ERROR, which are left out. Raises NotFound for an unknown role, Conflict if
    nothing is left.
    """
    from nodepool_ocb.rollout.plan import Again

    if not roles and not changed:
        return None
    for role in roles:
        if role not in world.roles:
            raise unknown("role", role, world.roles)
    within = set(below(world, deployment))
    there = [vertex for node in nodes for vertex in world.nodes[node].noderoles.values()]
    bound = [vertex for vertex in there if vertex.record.deployment in within and not vertex.unreadable]
    named = [vertex for vertex in bound if vertex.role in roles]
    active = [vertex for vertex in named if refreshable(vertex.record) and not renewing(vertex.record)]
    old = (yield from _outdated(world, bound)) if changed else []
    meant = dict.fromkeys([*active, *old])
    broken = [vertex for vertex in (bound if changed else named) if vertex.record.state is State.ERROR]
    yield from map(Note, _left_out(meant, [each for each in named if each not in meant and each not in broken]))
    yield from map(Note, _broken(broken))
    wanted = [vertex for vertex in meant if not vertex.destructive]
    words = ", ".join(
        [*(f"role {role}" for role in dict.fromkeys(roles)), *(["the outdated noderoles"] if changed else [])]
    )
    if not wanted:
        raise Conflict(
            f"nothing of {words} is to run again in deployment {deployment};"
            f" see: nodepool-ocb noderole list --deployment {deployment}"
        )
    return Again(words, _epochs(wanted))


def _outdated(world: World, vertices: Sequence[Vertex]) -> Steps[list[Vertex]]:
    """The outdated ones; raises Invalid if attributes that they see cannot be read."""
    found = yield from outdated.attributes(vertices)
    if found.unreadable:
        raise Invalid([f"{why}; see: nodepool-ocb record show {path}" for path, why in found.unreadable.items()])
    return inputs.all_outdated(world, vertices, found.blobs)


def _left_out(meant: Iterable[Vertex], others: Sequence[Vertex]) -> Iterator[str]:
    once = [vertex for vertex in meant if vertex.destructive]
    if once:
        yield f"note: {_named(once)}: destructive, and left out; nodepool-ocb noderole redeploy runs it again"
    if others:
        yield f"note: {_named(others)}: not ACTIVE, and left out"


def _broken(vertices: Sequence[Vertex]) -> Iterator[str]:
    if vertices:
        few = [" ".join(sorted(vertex.name for vertex in vertices))]
        whole = [f"--failed --deployment {name}" for name in sorted({vertex.record.deployment for vertex in vertices})]
        commands = " and ".join(
            f"nodepool-ocb noderole retry {each}" for each in (few if len(vertices) <= SHOWN else whole)
        )
        yield f"note: {_named(vertices)}: not ACTIVE, and left out: in ERROR; mend the cause, then: {commands}"


def _epochs(vertices: Iterable[Vertex]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for vertex in vertices:
        found.setdefault(vertex.node.name, {})[vertex.role] = vertex.record.epoch
    return found


def refuse_nothing(world: World, rollout: Rollout, taken: set[Vertex]) -> Steps[None]:
    """Raises Conflict if no group and phase takes a noderole that is to run again; notes name the others, and count these."""
    meant = [world.nodes[node].noderoles[role] for node, each in rollout.nodes.items() for role in each.again]
    if not taken:
        raise Conflict(
            f"nothing of {rollout.head.again} is in a phase of this rollout, on a node in a group of it; add them to its strategy"
        )
    left = [vertex for vertex in meant if vertex not in taken]
    if left:
        yield Note(f"note: {_named(left)}: in no phase or on nodes in no group, and not run again")
    many, nodes = counted(len(taken), "noderole"), counted(len({vertex.node for vertex in taken}), "node")
    yield Note(f"note: {rollout.head.again}: to run again: {many} on {nodes}")


def _named(vertices: Sequence[Vertex]) -> str:
    return some(sorted(vertex.name for vertex in vertices), SHOWN)
