"""The plan from a world to what site files want: decided whole, by the engine's own functions, and only then written.

What is not said stays as it is. The order: roles; deployments, those PROPOSED in which something changes; what is set for
roles in them; nodes; noderoles, parents first, with their attributes; what is committed; deployments, COMMITTED again. Each
transaction leaves a cluster that is sound, and the same files go on from there. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.records import Change
from nodepool_ocb.site import binds, machines, pruning, tree
from nodepool_ocb.site.course import copied
from nodepool_ocb.site.pruning import Removal
from nodepool_ocb.site.steps import Planning, Step
from nodepool_ocb.site.wanted import Circumstances, Kept, Wanted


class Plan(msgspec.Struct, frozen=True):
    """What is to be done, in this order."""

    steps: tuple[Step, ...]
    transactions: tuple[Sequence[Change], ...]
    notes: tuple[str, ...]  # what other nodes have to do with
    moved: tuple[Vertex, ...]  # the noderoles that are committed or taken back, in the world of the plan
    world: World  # as it is when all is done

    @property
    def going(self) -> tuple[str, ...]:
        """What is deleted, by name."""
        return tuple(f"{step.kind} {step.name}" for step in self.steps if step.change == "delete")


def plan(
    world: World,
    wanted: Wanted,
    about: Circumstances,
    kept: Mapping[str, Kept],
    removal: Removal | None = None,
) -> Plan:
    """The plan; the world stays as it is. ``kept`` has the attributes that users gave, by their path.

    ``removal``, where what is not said is to go: the deletions of a path and all below it. Raises NotFound, Invalid or
    Conflict, with the place in the files.
    """
    planning = Planning(copied(world), wanted, about, kept)
    tree.roles(planning)
    if removal is not None:
        pruning.prune(planning, removal)
    tree.made(planning)
    tree.checked(planning)
    tree.opened(planning)
    tree.configured(planning)
    machines.made_and_changed(planning)
    binds.bound(planning)
    binds.attributed(planning)
    binds.committed(planning)
    tree.committed(planning)
    planning.packing.close()
    return Plan(
        tuple(planning.steps),
        tuple(planning.packing.transactions),
        tuple(planning.notes),
        tuple(planning.moved),
        planning.world,
    )


def removable(world: World, wanted: Wanted, about: Circumstances) -> list[str]:
    """The paths whose deletions ``plan`` may ask ``removal`` for."""
    return pruning.places(Planning(world, wanted, about, {}))
