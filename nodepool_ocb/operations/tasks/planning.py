"""From a stored list and the nodes of a deployment to a plan: the one way, for ``plan``, ``run``, ``graph`` and rollouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents.counting import some
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine import deployments, unreadable
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.tasks.plans import CompilePlan
from nodepool_ocb.operations.reads.tasks.runs import ReadDone, ReadSucceeded
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.operations.selection import MatchNodes
from nodepool_ocb.operations.tasks import earlier, lists, sources
from nodepool_ocb.operations.tasks.choosing import TaskChoice
from nodepool_ocb.operations.tasks.earlier import EarlierRuns
from nodepool_ocb.operations.tasks.lists import LoadedList
from nodepool_ocb.tasks import members as membership
from nodepool_ocb.tasks.plan import Member, TaskPlan
from nodepool_ocb.tasks.records import ListOwner
from nodepool_ocb.tasks.runs import merging
from nodepool_ocb.tasks.tasklist import TaskKind, TaskList
from nodepool_ocb.views.tasks import plans
from nodepool_ocb.views.tasks.plans import TaskPlanDocument

READS: Final = (*earlier.READS, *lists.READS, *sources.READS, MatchNodes, ReadDone, ReadSucceeded, CompilePlan)
WHOLE: Final = ""  # the only part of a run that no rollout sends


class PreparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with everything that it was made of."""

    deployment: str
    choice: TaskChoice
    stored: LoadedList
    tasks: TaskList
    members: Sequence[Member]  # of the run, in listing order
    plan: TaskPlan
    facts: Mapping[str, Mapping[str, Json]]  # node, or "common" → the inputs of its tasks
    again: str | None = None  # the run that this one goes on with
    parts: tuple[str, ...] = ()  # of a rollout: those that are planned each by itself
    sends: Mapping[str, tuple[str, ...]] = {}  # of a rollout: phase → the tasks that it sends
    missing: tuple[str, ...] = ()  # settings that conditions of a lenient list took for null


class TaskTurns(msgspec.Struct, frozen=True):
    """The order in which a rollout sends tasks. ``parts``: part → its nodes; ``phases``: phase → the stages that it names."""

    parts: Mapping[str, Sequence[str]]
    phases: Mapping[str, Sequence[str]]


class PlannedTasks(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, and warnings about it."""

    document: TaskPlanDocument
    warnings: tuple[str, ...]


class TasksPlan(Operation[PlannedTasks], frozen=True, kw_only=True):
    """The tasks that would run, the nodes and the order; and the reasons why the rest would not."""

    noun = "tasks"
    verb = "plan"
    right = Right.VIEWER
    reads = (ReadWorld, *READS)

    deployment: str
    choice: TaskChoice = TaskChoice()
    everything: bool = False  # groups, stages and barriers, too

    def decide(self, situation: Situation) -> Steps[PlannedTasks]:  # noqa: ARG002
        world = yield from ReadWorld()
        prepared = yield from prepare(world, self.deployment, self.choice)
        return (yield from planned(world, prepared, everything=self.everything))


def planned(world: World, prepared: PreparedRun, *, everything: bool) -> Steps[PlannedTasks]:
    """The answer of ``plan``."""
    document = plans.document(prepared.deployment, prepared.plan, prepared.tasks, everything=everything)
    found = yield from warnings(world, prepared)
    return PlannedTasks(document=document, warnings=tuple(found))


def warnings(world: World, prepared: PreparedRun) -> Steps[list[str]]:
    """Warnings about the list, its settings, the files that it names, and the nodes."""
    refused = yield from sources.warnings(sources.of_plan(prepared.plan, prepared.tasks))
    missing = _missing_settings(prepared)
    return [*prepared.stored.warnings, *missing, *refused, *membership.warnings(world, prepared.members)]


def _missing_settings(prepared: PreparedRun) -> Iterator[str]:
    if prepared.missing:
        many = "a setting" if len(prepared.missing) == 1 else f"{len(prepared.missing)} settings"
        yield (
            f"conditions take {many} for null, since the list is --lenient: {some(prepared.missing, 5)};"
            f" nodepool-ocb tasks upload --deployment {prepared.deployment} --settings FILE"
        )


def prepare(world: World, deployment: str, choice: TaskChoice, turns: TaskTurns | None = None) -> Steps[PreparedRun]:
    """A plan for the nodes of a choice; with ``turns`` one of a plan for each part, without tasks that no phase sends.

    ``world``: the world that was read last. Raises NotFound, Conflict if there are no nodes, Invalid with all that is wrong in
    the list on these nodes, Ambiguous.
    """
    from nodepool_ocb.tasks.run_inputs import RunInputs

    choice.refuse_contradictions()
    deployments.refuse_deleting(deployment, deployment_of(world, deployment).record)
    unreadable.refuse_inventory(world)
    past = yield from earlier.load(deployment)
    again = past.retried if choice.retry else None
    if again is not None:
        choice = TaskChoice.again(again.head.what or "")
    stored = yield from lists.loaded(ListOwner(True, deployment))
    everyone = membership.members(world, deployment)
    choice = yield from _with_nodes(everyone, choice)
    parts = _parts(everyone, choice, turns)
    if not everyone:
        create = f"nodepool-ocb node create FQDN --address ADDRESS --deployment {deployment}"
        raise Conflict(f"deployment {deployment} has no node that is a machine; {create}")
    nodes = {each.name: record for each in everyone if (record := world.nodes[each.name].record)}
    inputs = RunInputs(deployment, stored.tasks, stored.settings, everyone, nodes)
    done = (yield from ReadDone(deployment, again.id)) if again else (yield from _deployed(past, inputs.tasks, choice))
    with _knowing_of_settings(deployment, stored.settings):
        plan, missing = yield from CompilePlan(
            deployment=deployment,
            inputs=inputs,
            everyone=everyone,
            parts=parts,
            rolled=turns is not None,
            selection=choice.selection,
            force=choice.force,
            done=done,
            status=past.status,
            earlier=past.over,
        )
    sends = dict[str, tuple[str, ...]]()
    if turns is not None:
        plan, sends = _in_turns(plan, inputs.tasks, tuple(parts), turns)
    return PreparedRun(
        deployment=deployment,
        choice=choice,
        stored=stored,
        tasks=inputs.tasks,
        members=[each for own in parts.values() for each in own],
        plan=plan,
        facts=inputs.attributes(plan),
        again=again.id if again else None,
        parts=tuple(parts) if turns is not None else (),
        sends=sends,
        missing=missing,
    )


def _with_nodes(everyone: Sequence[Member], choice: TaskChoice) -> Steps[TaskChoice]:
    """With the nodes that its selector means. Raises Conflict if it means none of these, because no nodes would mean all."""
    meant = yield from MatchNodes(choice.selector)
    if meant is None:
        return choice
    nodes = tuple(each.name for each in everyone if each.name in meant)
    if not nodes:
        raise Conflict(
            f"selector {choice.selector} matches no node on which these tasks could run; see: nodepool-ocb node list"
        )
    return replace(choice, nodes=nodes, selector=None)


def _parts(everyone: Sequence[Member], choice: TaskChoice, turns: TaskTurns | None) -> dict[str, list[Member]]:
    """The nodes of the run, in listing order: as one part, or as those of a rollout; parts without a node are left out."""
    if turns is None:
        return {WHOLE: membership.chosen(everyone, choice.nodes)}
    part_of = {node: part for part, nodes in turns.parts.items() for node in nodes}
    found: dict[str, list[Member]] = {part: [] for part in turns.parts}
    for each in everyone:
        if each.name in part_of:
            found[part_of[each.name]].append(each)
    return {part: members for part, members in found.items() if members}


def _in_turns(
    plan: TaskPlan, tasks: TaskList, parts: Sequence[str], turns: TaskTurns
) -> tuple[TaskPlan, dict[str, tuple[str, ...]]]:
    """The plan without tasks that no phase sends, and the tasks that each phase sends. Raises NotFound for an unknown stage."""
    known = [task.id for task in tasks.of_kind(TaskKind.STAGE)]
    for phase, stages in turns.phases.items():
        for stage in stages:
            if stage not in known:
                near = did_you_mean(stage, known) or f"; its stages are: {', '.join(known) or 'none'}"
                raise NotFound(f"phase {phase} names stage {stage}, which the task list does not have{near}")
    found = merging.phases_of(plan, list(turns.phases.values()), parts)
    sends = {phase: tuple(sent) for phase, sent in zip(turns.phases, found, strict=True)}
    return merging.without_unsent(plan, found), sends


def _deployed(past: EarlierRuns, tasks: TaskList, choice: TaskChoice) -> Steps[frozenset[tuple[str, str]]]:
    """For events: the (task, node) that succeeded before, and do not run again on any of these events."""
    if not choice.events:
        return frozenset()
    again = {each.id for each in tasks.tasks if {*each.reexecute_on, *each.refresh_on} & {*choice.events, "*"}}
    succeeded = yield from ReadSucceeded(past.deployment, past.over)
    return frozenset(key for key in succeeded if key[0] not in again and key[1])


@contextmanager
def _knowing_of_settings(deployment: str, settings: Mapping[str, Json]) -> Iterator[None]:
    """If there are no settings, that is the first sentence about wrong conditions."""
    try:
        yield
    except Invalid as wrong:
        if settings or not any("settings:" in problem for problem in wrong.problems):
            raise
        advice = f"nodepool-ocb tasks upload --deployment {deployment} --settings FILE"
        first = f"deployment {deployment} has no settings, and conditions ask for them; first: {advice}"
        raise Invalid((first, *wrong.problems)) from None
