"""From a stored list and the nodes of a deployment to a plan: the one way, for ``tasks plan``, ``run`` and ``graph``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.cli.kit.names import deployment_of
from nodepool_ocb.cli.tasks import lists
from nodepool_ocb.cli.tasks.lists import Loaded, Owner
from nodepool_ocb.cli.tasks.remembering import Past
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
    from nodepool_ocb.tasks.outfit import Outfit


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with everything that it was made of."""

    deployment: str
    asked: Asked
    stored: Loaded
    tasks: TaskList
    members: Sequence[Member]  # of the run, in listing order
    plan: Plan
    facts: Mapping[str, Mapping[str, Json]]  # node, or "common" → what its tasks are given
    again: str | None = None  # the run that this one goes on with

    def warnings(self, world: World) -> list[str]:
        """What somebody should know."""
        return [*self.stored.warnings, *membership.warnings(world, self.members)]


def prepare(opened: Session, world: World, deployment: str, asked: Asked) -> Prepared:
    """Raises NotFound, Conflict where there are no nodes, Invalid with all that is wrong in the list on these nodes."""
    from nodepool_ocb.tasks.outfit import Outfit

    deployment_of(world, deployment)
    unreadable.refuse_inventory(world)
    past = Past(opened, deployment)
    again = past.last if asked.retry else None
    if again is not None:
        asked = Asked.again(again.head.what or "")
    stored = lists.load(opened, Owner(deployment=deployment))
    everyone = membership.members(world, deployment)
    members = membership.chosen(everyone, asked.nodes)
    if not members:
        raise Conflict(f"deployment {deployment} has no nodes; nodepool-ocb node create FQDN --deployment {deployment}")
    nodes = {each.name: record for each in everyone if (record := world.nodes[each.name].record)}
    outfit = Outfit(deployment, stored.tasks, stored.settings, everyone, nodes)
    done = past.done_in(again.id) if again else _deployed(past, outfit.tasks, asked)
    plan = _planned(outfit, everyone, members, past, asked, done)
    return Prepared(
        deployment=deployment,
        asked=asked,
        stored=stored,
        tasks=outfit.tasks,
        members=members,
        plan=plan,
        facts=outfit.attributes(plan),
        again=again.id if again else None,
    )


def _deployed(past: Past, tasks: TaskList, asked: Asked) -> set[tuple[str, str]]:
    """On events: what did well before, and does not run again on any of them."""
    if not asked.events:
        return set()
    again = {each.id for each in tasks.tasks if {*each.reexecute_on, *each.refresh_on} & {*asked.events, "*"}}
    return {key for key in past.succeeded if key[0] not in again and key[1]}


def _planned(
    outfit: Outfit,
    everyone: Sequence[Member],
    members: Sequence[Member],
    past: Past,
    asked: Asked,
    done: set[tuple[str, str]],
) -> Plan:
    from nodepool_ocb.bounded.yaql import Yaql
    from nodepool_ocb.tasks.compiling import compile
    from nodepool_ocb.tasks.conditions import Judge
    from nodepool_ocb.tasks.conditions.judging import computed
    from nodepool_ocb.tasks.selection import Selection

    selection = Selection(tasks=asked.tasks, skip=asked.skip, start=asked.start, end=asked.end)
    with Yaql() as evaluator:
        sources = outfit.sources(past.status, members, evaluator=evaluator, old_facts_of=past.facts_of)
        judge = Judge(outfit.tasks, sources, force=asked.force)
        plan = compile(
            outfit.tasks,
            members,
            everyone,
            selection=selection or None,
            judge=judge,
            done=done,
            amount_of=judge.amount,
        )
        plan = computed(plan, judge, outfit.tasks, members)
        judge.check()
    return plan
