"""The tasks of a run in the engine: a role for each, and for each vertex of the plan a noderole. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.engine import claim, structure
from nodepool_ocb.engine.binding.refusals import TASK
from nodepool_ocb.engine.deployments import OF_TASKS
from nodepool_ocb.engine.noderole import Event, after, bound
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths, ranges
from nodepool_ocb.model.records import Change, Create, Fence, Node, NodeRole, Role, Set, State
from nodepool_ocb.tasks import kinds, parameters
from nodepool_ocb.tasks.plan import Bears, TaskPlan
from nodepool_ocb.tasks.runs import naming
from nodepool_ocb.tasks.runs.records import Definition, LoadedTaskRun
from nodepool_ocb.tasks.tasklist import Task

BARRIER: Final = "barrier"


def definitions(plan: TaskPlan, tasks: Mapping[str, Task], deployment: str) -> dict[str, Definition]:
    """The role definition of each task and barrier of a plan."""
    found: dict[str, Definition] = {}
    for number, name in enumerate(plan.tasks):
        role = naming.role(deployment, name)
        task = tasks.get(name)
        if task is None:
            found[name] = Definition(name, role, BARRIER, bears=plan.bears.get(number, Bears.SOME))
        else:
            found[name] = Definition(
                name,
                role,
                task.kind,
                fail_on_error=task.fail_on_error,
                all_done=task.trigger_rule == "all_done",
                origin=f"{task.origin} {task.place}".strip(),
            )
    return found


def barclamp(deployment: str) -> str:
    """The text in the place of a barclamp in the roles of a deployment's tasks."""
    return f"tasks of {deployment}"


def role(deployment: str, name: str, task: Task | None) -> Role:
    """The role of a task, or of a barrier (None)."""
    source = barclamp(deployment)
    jig = kinds.JIGS.get(task.kind, "noop") if task is not None else "noop"
    if task is None or jig == "noop":
        return Role(barclamp=source, jig="noop", flags=(TASK,), task=name)
    given = parameters.completed(task)
    return Role(
        barclamp=source,
        jig=jig,
        flags=(TASK,),
        task=name,
        parameters=given,
        timeout_seconds=min(float(given.get("timeout", 300)), ranges.TIMEOUT_SECONDS),
        retries=min(int(given.get("retries", 0)), ranges.RETRIES),
        backoff_seconds=min(float(given.get("interval", 0)), ranges.BACKOFF_SECONDS),
    )


def of_roles(world: World, roles: Mapping[str, Role]) -> Iterator[list[Change]]:
    """The changes after which the catalogue has these roles, by name. Raises Conflict if another role has such a name."""
    for name, wanted in roles.items():
        stored = world.roles.get(name)
        if stored is None:
            yield [Create(paths.role(name), wanted)]
        elif stored.record != wanted:
            if TASK not in stored.record.flags:
                raise Conflict(
                    f"role {name} of barclamp {stored.record.barclamp} has the name of a task; rename one of both"
                )
            yield [Set(paths.role(name), wanted, stored.version)]


def of_virtual_node(world: World, name: str, deployment: str, now: float) -> list[Change]:
    """The changes that create the virtual node; empty if it exists. Raises Conflict if it is in another deployment."""
    view = world.nodes.get(name)
    if view is not None and view.record is not None:
        if view.record.deployment != deployment:
            raise Conflict(f"node {name} is of deployment {view.record.deployment} now; run the tasks again")
        return []
    base = structure.stored(world).record.epoch
    labels = {OF_TASKS: deployment}
    node = Node(deployment=deployment, virtual=True, alive=True, since=now, epoch_base=base, labels=labels)
    return [Create(paths.node(name), node), Create(paths.fence(name), Fence()), Create(paths.noderoles(name))]


def of_noderoles(world: World, running: LoadedTaskRun, now: float, by: str | None) -> Iterator[list[Change]]:
    """The changes that make every vertex a PROPOSED noderole of this run; those that are so already are left out.

    Children come before their parents, so that none of them waits for a noderole that is still to be renewed. Noderoles of
    another run below these lose such parents: they do not belong to this run.

    Raises Conflict for a noderole that is at work or is of no run, and for a node that is being deleted. Raises NotFound for a
    node that is gone.
    """
    plan = running.plan
    names = [running.noderole(at) for at in range(len(plan))]
    ours, let_go = set(names), set[str]()
    generation = structure.stored(world).record.generation
    for at in sorted(range(len(plan)), key=lambda each: plan.rank[each]):
        parents = tuple(sorted(names[above] for above in plan.parents[at]))
        own = {"parents": parents, "task_run": running.id, "rank": min(plan.rank[at], 10**9)}
        vertex = world.vertex(names[at])
        _present(world, names[at].partition("@")[2], running.head.virtual)
        if vertex is None:
            path = paths.noderole(*paths.split_noderole(names[at]))
            made = bound(now, by, deployment=running.deployment, generation=generation, **own)
            yield [Create(path, made), Create(f"{path}/runs")]
            continue
        record = _taken_back(vertex, now, by)
        wanted = record.amended(reason=None, **own)
        if wanted != vertex.record:
            yield [*_let_go(vertex, ours, let_go), *claim.writes(vertex, wanted)]


def _present(world: World, fqdn: str, virtual: str) -> None:
    view = world.nodes.get(fqdn)
    if fqdn != virtual and (view is None or view.record is None):
        raise NotFound(f"node {fqdn} is gone; run the tasks again without it")
    if view is not None and view.record is not None and view.record.deleting:
        raise Conflict(f"node {fqdn} is being deleted; run the tasks again without it")


def _taken_back(vertex: Vertex, now: float, by: str | None) -> NodeRole:
    if vertex.record.task_run is None:
        raise Conflict(
            f"{vertex.name} is there, and is of no run of tasks; unbind it first: nodepool-ocb noderole unbind {vertex.name}"
        )
    if vertex.record.state is State.TRANSITION:
        raise Conflict(
            f"{vertex.name} is still at work for run {vertex.record.task_run};"
            f" wait for it, or end it: nodepool-ocb noderole cancel {vertex.name}"
        )
    if vertex.record.state is State.PROPOSED:
        return vertex.record
    return after(vertex.record, Event.PROPOSE, now, by=by)


def _let_go(vertex: Vertex, ours: set[str], let_go: set[str]) -> Iterator[Change]:
    """Delete the plan's parents from tasks below it that are in no plan; each task is written once: it is added to ``let_go``."""
    for child in vertex.children:
        if child.name not in ours and child.name not in let_go and child.record.task_run is not None:
            let_go.add(child.name)
            kept = tuple(name for name in child.record.parents if name not in ours)
            yield from claim.writes(child, replace(child.record, parents=kept))


def transactions(
    world: World, running: LoadedTaskRun, roles: Mapping[str, Role], now: float, by: str | None
) -> Iterator[list[Change]]:
    """All changes, in transactions; write each before taking the next. Records that exist already are left out."""

    def units() -> Iterator[Iterable[Change]]:
        yield from of_roles(world, roles)
        if virtual := of_virtual_node(world, running.head.virtual, running.deployment, now):
            yield virtual
        yield from of_noderoles(world, running, now, by)

    yield from structure.in_parts(world, (list(unit) for unit in units()))
