"""From a stored list and the nodes of a deployment to a plan: the one way, for ``tasks plan``, ``run`` and ``graph``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.cli.kit.selecting import nodes_meant
from nodepool_ocb.cli.tasks import lists, sources
from nodepool_ocb.cli.tasks.lists import Loaded, Owner
from nodepool_ocb.cli.tasks.remembering import Past
from nodepool_ocb.cli.tasks.selecting import Asked
from nodepool_ocb.documents.counting import some
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine import deployments, unreadable
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.tasks import members as membership
from nodepool_ocb.tasks.plan import Member, Plan
from nodepool_ocb.tasks.runs import uniting
from nodepool_ocb.tasks.tasklist import Kind, TaskList

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.tasks.outfit import Outfit


WHOLE: Final = ""  # the only part of a run that no rollout sends


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
    parts: tuple[str, ...] = ()  # of a rollout: those that are planned each by itself
    sends: Mapping[str, tuple[str, ...]] = {}  # of a rollout: phase → the tasks that it sends
    missing: tuple[str, ...] = ()  # settings that conditions of a lenient list took for null

    def warnings(self, world: World) -> list[str]:
        """What somebody should know."""
        refused = sources.of_plan(self.plan, self.tasks)
        return [*self.stored.warnings, *self._missing(), *refused, *membership.warnings(world, self.members)]

    def _missing(self) -> Iterator[str]:
        if self.missing:
            many = "a setting" if len(self.missing) == 1 else f"{len(self.missing)} settings"
            yield (
                f"conditions take {many} for null, since the list is --lenient: {some(self.missing, 5)};"
                f" nodepool-ocb tasks upload --deployment {self.deployment} --settings FILE"
            )


class Turns(msgspec.Struct, frozen=True):
    """How a rollout sends tasks. ``parts``: part → its nodes; ``phases``: phase → the stages that it names."""

    parts: Mapping[str, Sequence[str]]
    phases: Mapping[str, Sequence[str]]


def prepare(opened: Session, world: World, deployment: str, asked: Asked, turns: Turns | None = None) -> Prepared:
    """A plan for all nodes that are asked for; with ``turns`` one of a plan for each part, without what no phase sends.

    Raises NotFound, Conflict where there are no nodes, Invalid with all that is wrong in the list on these nodes."""
    from nodepool_ocb.tasks.outfit import Outfit

    deployments.refuse_deleting(deployment, deployment_of(world, deployment).record)
    unreadable.refuse_inventory(world)
    past = Past(opened, deployment)
    again = past.last if asked.retry else None
    if again is not None:
        asked = Asked.again(again.head.what or "")
    stored = lists.load(opened, Owner(deployment=deployment))
    everyone = membership.members(world, deployment)
    asked = _with_nodes(opened, world, everyone, asked)
    parts = _parts(everyone, asked, turns)
    members = [each for own in parts.values() for each in own]
    if not everyone:
        create = f"nodepool-ocb node create FQDN --address ADDRESS --deployment {deployment}"
        raise Conflict(f"deployment {deployment} has no node that is a machine; {create}")
    nodes = {each.name: record for each in everyone if (record := world.nodes[each.name].record)}
    outfit = Outfit(deployment, stored.tasks, stored.settings, everyone, nodes)
    done = past.done_in(again.id) if again else _deployed(past, outfit.tasks, asked)
    with _knowing_of_settings(deployment, stored.settings):
        plan, missing = _planned(outfit, everyone, parts, past, asked, done)
    sends = dict[str, tuple[str, ...]]()
    if turns is not None:
        plan, sends = _in_turns(plan, outfit.tasks, tuple(parts), turns)
    return Prepared(
        deployment=deployment,
        asked=asked,
        stored=stored,
        tasks=outfit.tasks,
        members=members,
        plan=plan,
        facts=outfit.attributes(plan),
        again=again.id if again else None,
        parts=tuple(parts) if turns is not None else (),
        sends=sends,
        missing=missing,
    )


def _with_nodes(opened: Session, world: World, everyone: Sequence[Member], asked: Asked) -> Asked:
    """With the nodes that its selector means; raises Conflict where that is none of these, for nobody named means all."""
    meant = nodes_meant(opened, world, asked.selector)
    if meant is None:
        return asked
    nodes = tuple(each.name for each in everyone if each.name in meant)
    if not nodes:
        raise Conflict(f"selector {asked.selector} means no node on which these tasks could run")
    return replace(asked, nodes=nodes, selector=None)


def _parts(everyone: Sequence[Member], asked: Asked, turns: Turns | None) -> dict[str, list[Member]]:
    """Those of the run, in listing order: in one part, or in those of a rollout; such as have no member are left out."""
    if turns is None:
        return {WHOLE: membership.chosen(everyone, asked.nodes)}
    part_of = {node: part for part, nodes in turns.parts.items() for node in nodes}
    found: dict[str, list[Member]] = {part: [] for part in turns.parts}
    for each in everyone:
        if each.name in part_of:
            found[part_of[each.name]].append(each)
    return {part: members for part, members in found.items() if members}


def _in_turns(
    plan: Plan, tasks: TaskList, parts: Sequence[str], turns: Turns
) -> tuple[Plan, dict[str, tuple[str, ...]]]:
    """The plan without what no phase sends, and what each phase does send. Raises NotFound for a stage that is not there."""
    known = [task.id for task in tasks.of_kind(Kind.STAGE)]
    for phase, stages in turns.phases.items():
        for stage in stages:
            if stage not in known:
                near = did_you_mean(stage, known) or f"; its stages are: {', '.join(known) or 'none'}"
                raise NotFound(f"phase {phase} names stage {stage}, which the task list does not have{near}")
    found = uniting.phases_of(plan, list(turns.phases.values()), parts)
    sends = {phase: tuple(sent) for phase, sent in zip(turns.phases, found, strict=True)}
    return uniting.without_unsent(plan, found), sends


def _deployed(past: Past, tasks: TaskList, asked: Asked) -> set[tuple[str, str]]:
    """On events: what did well before, and does not run again on any of them."""
    if not asked.events:
        return set()
    again = {each.id for each in tasks.tasks if {*each.reexecute_on, *each.refresh_on} & {*asked.events, "*"}}
    return {key for key in past.succeeded if key[0] not in again and key[1]}


@contextmanager
def _knowing_of_settings(deployment: str, settings: Mapping[str, Json]) -> Iterator[None]:
    """Where there are no settings, that comes first of all that is wrong with conditions."""
    try:
        yield
    except Invalid as wrong:
        if settings or not any("settings:" in problem for problem in wrong.problems):
            raise
        advice = f"nodepool-ocb tasks upload --deployment {deployment} --settings FILE"
        first = f"deployment {deployment} has no settings, and conditions ask for them: {advice}"
        raise Invalid((first, *wrong.problems)) from None


def _planned(
    outfit: Outfit,
    everyone: Sequence[Member],
    parts: Mapping[str, Sequence[Member]],
    past: Past,
    asked: Asked,
    done: set[tuple[str, str]],
) -> tuple[Plan, tuple[str, ...]]:
    """The plan, and the settings that its conditions missed and may miss."""
    from nodepool_ocb.bounded.yaql import Yaql
    from nodepool_ocb.tasks.compiling import compile
    from nodepool_ocb.tasks.conditions import Judge
    from nodepool_ocb.tasks.conditions.judging import computed

    members = [each for own in parts.values() for each in own]
    with Yaql() as evaluator:
        sources = outfit.sources(past.status, members, evaluator=evaluator, old_facts_of=past.facts_of)
        judge = Judge(outfit.tasks, sources, force=asked.force)
        plans = {
            part: compile(
                outfit.tasks,
                own,
                everyone,
                selection=asked.selection or None,
                judge=judge,
                done=done,
                amount_of=judge.amount,
                tolerant=WHOLE not in parts,
                relations_of=judge.relations,
            )
            for part, own in parts.items()
        }
        plan = plans[WHOLE] if WHOLE in plans else uniting.united(plans)
        plan = computed(plan, judge, outfit.tasks, members)
        judge.check()
    return plan, tuple(judge.missing)
