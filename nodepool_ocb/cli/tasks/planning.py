"""From a stored list and the nodes of a deployment to a plan: the one way, for ``tasks plan``, ``run`` and ``graph``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.cli.kit.names import deployment_of
from nodepool_ocb.cli.tasks import lists
from nodepool_ocb.cli.tasks.lists import Owner
from nodepool_ocb.cli.tasks.selecting import Asked
from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks import members as membership
from nodepool_ocb.tasks.plan import Member, Plan
from nodepool_ocb.tasks.tasklist import TaskList

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with everything that it was made of."""

    deployment: str
    asked: Asked
    tasks: TaskList
    settings: Mapping[str, Json]
    everyone: Sequence[Member]  # of the deployment
    members: Sequence[Member]  # of the run, in listing order
    plan: Plan
    warnings: tuple[str, ...]


def prepare(opened: Session, world: World, deployment: str, asked: Asked) -> Prepared:
    """Raises NotFound, Conflict where there are no nodes, Invalid with all that is wrong in the list on these nodes."""
    from nodepool_ocb.bounded.yaql import Yaql
    from nodepool_ocb.tasks import facts
    from nodepool_ocb.tasks.compiling import compile
    from nodepool_ocb.tasks.conditions import Judge, Sources
    from nodepool_ocb.tasks.selection import Selection

    deployment_of(world, deployment)
    unreadable.refuse_inventory(world)
    stored = lists.load(opened, Owner(deployment=deployment))
    everyone = membership.members(world, deployment)
    members = membership.chosen(everyone, asked.nodes)
    if not members:
        raise Conflict(f"deployment {deployment} has no nodes; nodepool-ocb node create FQDN --deployment {deployment}")
    selection = Selection(tasks=asked.tasks, skip=asked.skip, start=asked.start, end=asked.end)
    with Yaql() as evaluator:
        sources = Sources(
            facts.models(stored.settings, facts.cluster_status(None), members, everyone), evaluator=evaluator
        )
        judge = Judge(stored.tasks, sources, force=asked.force)
        plan = compile(
            stored.tasks,
            members,
            everyone,
            selection=selection or None,
            judge=judge,
            amount_of=judge.amount,
        )
        judge.check()
    return Prepared(
        deployment=deployment,
        asked=asked,
        tasks=stored.tasks,
        settings=stored.settings,
        everyone=everyone,
        members=members,
        plan=plan,
        warnings=(*stored.warnings, *membership.warnings(world, members)),
    )
