"""The noderoles that a rollout of an ACTIVE site runs again: those of named roles, outdated ones, or both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.deployments import below
from nodepool_ocb.engine.noderole import refreshable, renewing
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model.records import State
from nodepool_ocb.operations.commits import outdated
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.rollout.observer import Observer

if TYPE_CHECKING:
    from nodepool_ocb.rollout.plan import Again
    from nodepool_ocb.rollout.records import Rollout
    from nodepool_ocb.rollout.strategy import Batch, Strategy
    from nodepool_ocb.store.client.session import Session

SHOWN = 3  # names in a sentence

refresh_option = click.option(
    "--refresh", "roles", multiple=True, metavar="ROLE", shell_complete=completion.roles,
    help="Run ACTIVE noderoles of this role again in place; may be given again. PROPOSED noderoles are not committed.",
)  # fmt: skip
changed_option = click.option(
    "--changed", is_flag=True,
    help="Run outdated noderoles again in place: ACTIVE ones with inputs that changed since their newest run.",
)  # fmt: skip
batch_option = click.option(
    "--batch",
    "batches",
    multiple=True,
    metavar="SIZE",
    help="Groups without batches: how many nodes (5, 10%) have been sent in total by the end of each batch; must rise.",
)


def chosen(
    opened: Session, world: World, deployment: str, nodes: Iterable[str], roles: Sequence[str], changed: bool
) -> Again | None:
    """The noderoles to run again on these nodes, by ``--refresh`` and ``--changed``; None without these options.

    Noderoles that are destructive or in ERROR are left out, with a note. Raises NotFound for a role that does not exist,
    Conflict if there is no noderole to run again.
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
    meant = dict.fromkeys([*active, *(_outdated(opened, world, bound) if changed else ())])
    broken = [vertex for vertex in (bound if changed else named) if vertex.record.state is State.ERROR]
    _say_what_is_left_out(meant, [each for each in named if each not in meant and each not in broken])
    _say_what_is_broken(broken)
    wanted = [vertex for vertex in meant if not vertex.destructive]
    words = ", ".join(
        [*(f"role {role}" for role in dict.fromkeys(roles)), *(["the outdated noderoles"] if changed else [])]
    )
    if not wanted:
        raise Conflict(f"nothing of {words} is to run again in deployment {deployment}")
    return Again(words, _epochs(wanted))


def _outdated(opened: Session, world: World, vertices: Sequence[Vertex]) -> list[Vertex]:
    """Those that would be given something else now; raises Invalid where attributes that they see cannot be read."""
    found = performer().read(outdated.attributes(vertices), opened)
    if found.unreadable:
        raise Invalid(list(found.unreadable.values()))
    return inputs.all_outdated(world, vertices, found.blobs)


def _say_what_is_left_out(meant: Iterable[Vertex], others: Sequence[Vertex]) -> None:
    once = [vertex for vertex in meant if vertex.destructive]
    if once:
        output.say(f"note: {_named(once)}: destructive, and left out; nodepool-ocb noderole redeploy runs it again")
    if others:
        output.say(f"note: {_named(others)}: not ACTIVE, and left out")


def _say_what_is_broken(vertices: Sequence[Vertex]) -> None:
    if vertices:
        few = [" ".join(sorted(vertex.name for vertex in vertices))]
        whole = [f"--failed --deployment {name}" for name in sorted({vertex.record.deployment for vertex in vertices})]
        chosen = few if len(vertices) <= SHOWN else whole
        commands = " and ".join(f"nodepool-ocb noderole retry {each}" for each in chosen)
        output.say(f"note: {_named(vertices)}: not ACTIVE, and left out: in ERROR; mend the cause, then: {commands}")


def _epochs(vertices: Iterable[Vertex]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for vertex in vertices:
        found.setdefault(vertex.node.name, {})[vertex.role] = vertex.record.epoch
    return found


def refuse_nothing(world: World, deployment: str, rollout: Rollout) -> None:
    """Raises Conflict if no group and phase has a noderole to run again; prints how many have one, and the others."""
    look = Observer(world, deployment, rollout)
    grouped = {node for members in rollout.members.values() for node in members}
    phases = range(len(rollout.head.strategy.phases))
    taken = {vertex for node in grouped for phase in phases for vertex in look.noderoles(node, phase)}
    meant = [world.nodes[node].noderoles[role] for node, each in rollout.nodes.items() for role in each.again]
    if not taken:
        raise Conflict(f"nothing of {rollout.head.again} is in a phase of this rollout, on a node in a group of it")
    left = [vertex for vertex in meant if vertex not in taken]
    if left:
        output.say(f"note: {_named(left)}: in no phase or on nodes in no group, and not run again")
    many, nodes = counted(len(taken), "noderole"), counted(len({vertex.node for vertex in taken}), "node")
    output.say(f"note: {rollout.head.again}: to run again: {many} on {nodes}")


def _named(vertices: Sequence[Vertex]) -> str:
    return some(sorted(vertex.name for vertex in vertices), SHOWN)


def with_batches(strategy: Strategy, sizes: Sequence[str]) -> Strategy:
    """The strategy with these batches in every group that has none; raises UsageError where they do not rise."""
    from nodepool_ocb.rollout.reading import batch

    try:
        batches = tuple(map(batch, sizes))
    except ValueError as wrong:
        raise click.UsageError(
            f"--batch {wrong}: write a number of nodes such as 5, or a part of them such as 10%"
        ) from wrong
    if not batches:
        return strategy
    _refuse_falling(sizes, batches)
    groups = tuple(group if group.batches else replace(group, batches=batches) for group in strategy.groups)
    return replace(strategy, groups=groups)


def _refuse_falling(sizes: Sequence[str], batches: Sequence[Batch]) -> None:
    """Raises UsageError; of a number and a percentage only the size of a group says which is more."""
    for size, (before, after) in zip(sizes[1:], pairwise(batches), strict=True):
        numbers = before.nodes and after.nodes and before.nodes >= after.nodes
        parts = before.percent and after.percent and before.percent >= after.percent
        if numbers or parts:
            raise click.UsageError(
                f"--batch {size}: must be more than the batch before it, since each is how many nodes have been sent in total"
            )
