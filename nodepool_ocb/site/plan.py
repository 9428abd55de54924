"""The plan from a world to the state in site files: decided whole by the engine's own functions, and then written.

Things that the files do not name stay as they are. The order: roles; deployments, those PROPOSED in which something
changes; deployment roles; networks; nodes; noderoles, parents first, with their attributes; commits of noderoles; deployments,
COMMITTED again. Each transaction leaves a sound cluster, from which the same files continue. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from nodepool_ocb.engine.advancing import copied
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.records import Change
from nodepool_ocb.site import binds, machines, nets, pruning, tree
from nodepool_ocb.site.desired_state import Circumstances, DesiredState, StoredAttributes
from nodepool_ocb.site.pruning import Removal
from nodepool_ocb.site.steps import Planning, PlanStep
from nodepool_ocb.site.transactions import FirstChange, NoPacking, Packing


class SitePlan(msgspec.Struct, frozen=True):
    """The steps of a plan in their order, and its transactions."""

    steps: tuple[PlanStep, ...]
    transactions: tuple[Sequence[Change], ...]
    notes: tuple[str, ...]  # effects on other nodes
    moved: tuple[Vertex, ...]  # the noderoles that are committed or taken back, in the world of the plan
    world: World  # as it is when all is done

    @property
    def going(self) -> tuple[str, ...]:
        """The names of the records that are deleted, each with its kind."""
        return tuple(f"{step.kind} {step.name}" for step in self.steps if step.change == "delete")


def plan(
    world: World,
    wanted: DesiredState,
    about: Circumstances,
    kept: Mapping[str, StoredAttributes],
    removal: Removal | None = None,
) -> SitePlan:
    """The plan; the world stays as it is. ``kept`` has the attributes that users gave, by their path.

    ``removal`` gives the deletions of a path and all below it. With it, records that the files do not name are deleted.
    Raises NotFound, Invalid or Conflict, with the place in the files.
    """
    try:
        return _planned(Planning(NoPacking(world), wanted, about, kept), removal)
    except FirstChange:  # a copy of a large world costs as much as all of this
        return _planned(Planning(Packing(copied(world)), wanted, about, kept), removal)


def _planned(planning: Planning, removal: Removal | None) -> SitePlan:
    tree.roles(planning)
    if removal is not None:
        pruning.prune(planning, removal)
    tree.made(planning)
    tree.checked(planning)
    tree.opened(planning)
    tree.configured(planning)
    nets.made_and_changed(planning)
    machines.made_and_changed(planning)
    binds.bound(planning)
    binds.attributed(planning)
    binds.committed(planning)
    tree.committed(planning)
    planning.packing.close()
    return SitePlan(
        tuple(planning.steps),
        tuple(planning.packing.transactions),
        tuple(planning.notes),
        tuple(planning.moved),
        planning.world,
    )


def removable(world: World, wanted: DesiredState, about: Circumstances) -> list[str]:
    """The paths for which ``plan`` may call ``removal``."""
    return pruning.places(Planning(NoPacking(world), wanted, about, {}))
