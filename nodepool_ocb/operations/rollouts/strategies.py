"""The strategy of a call, before its nodes are known: from files, with the phases and the batches that the call names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine.deployments import SYSTEM
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Ambiguous
from nodepool_ocb.operations.names import deployment_of

if TYPE_CHECKING:
    from nodepool_ocb.rollout.strategy import Batch
    from nodepool_ocb.rollout.strategy import Strategy as Strategy


class CheckedStrategy(msgspec.Struct, frozen=True):
    """A strategy of some files."""

    strategy: Strategy
    warnings: tuple[str, ...]


def read(files: Sequence[str], name: str | None) -> CheckedStrategy:
    """The strategy of this name in the files; raises Invalid with all faults, NotFound."""
    from nodepool_ocb.rollout import reading

    found = reading.read(files)
    return CheckedStrategy(found.chosen(name, ", ".join(files)), found.warnings)


def whole(phases: Iterable[str] = ()) -> Strategy:
    """One critical group of all nodes, without phases that commit nothing; ``phases`` as in ``with_phases``."""
    from nodepool_ocb.rollout.strategy import WHOLE, without_idle_phases

    return without_idle_phases(with_phases(WHOLE, phases))


def with_phases(chosen: Strategy, given: Iterable[str]) -> Strategy:
    """The strategy; the named phases, each ``NAME=ROLE,...``, commit these roles. Raises Ambiguous."""
    known = {phase.name: phase for phase in chosen.phases}
    for each in given:
        name, _, roles = each.partition("=")
        if name not in known or not roles:
            near = did_you_mean(name, known) or f"; the phases are: {', '.join(known)}"
            raise Ambiguous(f"--phase {each}: write PHASE=ROLE,... with a phase of the strategy{near}")
        known[name] = replace(known[name], roles=tuple(roles.split(",")), stages=())
    return replace(chosen, phases=tuple(known.values()))


def with_batches(strategy: Strategy, sizes: Sequence[str]) -> Strategy:
    """The strategy with these batches in every group that has none; raises Ambiguous if they do not rise."""
    from nodepool_ocb.rollout.reading import batch

    try:
        batches = tuple(map(batch, sizes))
    except ValueError as wrong:
        raise Ambiguous(f"--batch {wrong}: write a number of nodes such as 5, or a part of them such as 10%") from wrong
    if not batches:
        return strategy
    _refuse_falling(sizes, batches)
    groups = tuple(group if group.batches else replace(group, batches=batches) for group in strategy.groups)
    return replace(strategy, groups=groups)


def _refuse_falling(sizes: Sequence[str], batches: Sequence[Batch]) -> None:
    """Raises Ambiguous. A number and a percentage cannot be compared before the size of a group is known."""
    for size, (before, after) in zip(sizes[1:], pairwise(batches), strict=True):
        numbers = before.nodes and after.nodes and before.nodes >= after.nodes
        parts = before.percent and after.percent and before.percent >= after.percent
        if numbers or parts:
            raise Ambiguous(
                f"--batch {size}: must be more than the batch before it, since each counts all nodes sent so far; raise it"
            )


def deployment_meant(world: World, wanted: str | None) -> str:
    """The deployment of this name; None: the only one beside system. Raises NotFound, Ambiguous."""
    if wanted is not None:
        deployment_of(world, wanted)
        return wanted
    own = sorted(world.deployments.keys() - {SYSTEM})
    if len(own) > 1:
        raise Ambiguous(f"there are several deployments: {', '.join(own)}; name one with --deployment")
    return own[0] if own else SYSTEM
