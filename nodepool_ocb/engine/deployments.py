"""The deployment tree, and the state machine of a deployment.

- A deployment begins PROPOSED: annealers do not work in it, and people change it. In COMMITTED, annealers work in it.
- COMMIT and PROPOSE are requests of people. A request for the state that a deployment has changes nothing.
- Deployment ``system`` begins and stays COMMITTED. ``turn`` refuses every request to change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.engine import structure, unreadable
from nodepool_ocb.engine.world import NodeView, Stored, Vertex, World
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import Checks
from nodepool_ocb.model.executions import ROLLOUT, TASK_RUN, ExecutionKind, Key
from nodepool_ocb.model.ranges import is_name
from nodepool_ocb.model.records import Change, Check, Create, Deployment, DeploymentState, Pointer, Set, State
from nodepool_ocb.model.statemachines import StateMachine

SYSTEM: Final = "system"
#: The label of a virtual node that holds the stages of a deployment's tasks: the deployment.
OF_TASKS: Final = "tasks-of"


class DeploymentEvent(StrEnum):
    """The events of a deployment."""

    INIT = "INIT"  # the cluster is made, and deployment system with it
    CREATE = "CREATE"  # a person makes it
    COMMIT = "COMMIT"  # a person lets annealers work in it
    PROPOSE = "PROPOSE"  # a person takes it back, to change it


DEPLOYMENTS: Final = StateMachine(
    "a deployment",
    DeploymentState,
    DeploymentEvent,
    {
        (None, DeploymentEvent.INIT): DeploymentState.COMMITTED,
        (None, DeploymentEvent.CREATE): DeploymentState.PROPOSED,
        (DeploymentState.PROPOSED, DeploymentEvent.COMMIT): DeploymentState.COMMITTED,
        (DeploymentState.COMMITTED, DeploymentEvent.PROPOSE): DeploymentState.PROPOSED,
    },
)

#: The request that leads to a state.
_TOWARDS: Final[Mapping[DeploymentState, DeploymentEvent]] = {
    DeploymentState.COMMITTED: DeploymentEvent.COMMIT,
    DeploymentState.PROPOSED: DeploymentEvent.PROPOSE,
}


def new_deployment(event: DeploymentEvent, now: float, **fields: Any) -> Deployment:
    """The record that an event makes. ``fields``: its other keys. Raises Conflict if the event makes none."""
    return Deployment(state=DEPLOYMENTS.to(None, event), since=now, **fields)


def deployment_after(record: Deployment, event: DeploymentEvent, now: float, by: str | None = None) -> Deployment:
    """The deployment after an event. Raises Conflict if the table has no such pair."""
    return replace(record, state=DEPLOYMENTS.to(record.state, event), since=now, by=by)


def create(world: World, name: str, parent: str, now: float, by: str | None = None) -> list[Change]:
    """A new deployment, PROPOSED; raises Invalid, Conflict or NotFound (the parent)."""
    if not is_name(name):
        raise Invalid(f"{name!r} is no name for a deployment; use small letters, digits, '-', '_' and '.', at most 63")
    unreadable.refuse(world, [paths.deployment(name)])
    if name in world.deployments:
        raise Conflict(f"deployment {name} exists already; see: nodepool-ocb deployment show {name}")
    living(world, parent)
    made = new_deployment(DeploymentEvent.CREATE, now, parent=parent, by=by)
    return structure.raised(world, [Create(paths.deployment(name), made), Create(paths.deployment_roles(name))])


def turn(world: World, name: str, state: DeploymentState, now: float, by: str | None = None) -> list[Change]:
    """Let annealers work in a deployment (COMMITTED), or keep them out while people change it (PROPOSED)."""
    stored = living(world, name)
    if name == SYSTEM:
        raise Conflict("deployment system is always COMMITTED; make a deployment of your own below it")
    if stored.record.state is state:
        return []
    after = deployment_after(stored.record, _TOWARDS[state], now, by)
    return [Set(paths.deployment(name), after, stored.version)]


def checked_by(world: World, name: str, checks: Checks | None) -> list[Change]:
    """Set the schedule of checks of the ACTIVE noderoles; the same schedule again keeps its ``since``."""
    stored = living(world, name)
    before = stored.record.checks
    if checks is not None and before is not None and checks.schedule == before.schedule:
        checks = replace(checks, since=before.since)
    if checks == before:
        return []
    return [Set(paths.deployment(name), replace(stored.record, checks=checks), stored.version)]


def changeable(world: World, vertex: Vertex) -> Check:
    """The check for a change of a noderole's user attributes: the noderole, or its deployment, is PROPOSED.

    Raises Conflict, with the next step, if both are committed: there "user-level changes are Not Allowed" (seed 000).
    """
    name = vertex.record.deployment
    stored = of(world, name)
    if vertex.record.state is not State.PROPOSED and stored.record.state is DeploymentState.COMMITTED:
        ended = f" when it has ended (nodepool-ocb noderole wait {vertex.name})" * (
            vertex.record.state is State.TRANSITION
        )
        alone = f"nodepool-ocb noderole propose {vertex.name}{ended}, and noderole commit afterwards"
        whole = f"; or the deployment: nodepool-ocb deployment propose {name}, and deployment commit afterwards"
        raise Conflict(
            f"{vertex.name} is {vertex.record.state} in deployment {name}, which is COMMITTED, and cannot be changed so;"
            f" take it back first: {alone}{whole if name != SYSTEM else ''}"
        )
    return Check(paths.deployment(name), stored.version)


# -- rollouts and runs of tasks in a deployment --


def refuse_driven(world: World, vertices: Iterable[Vertex]) -> None:
    """Raises Conflict if one of the noderoles was bound by a run of tasks that is not over, with the command that ends it.

    Such a noderole is not unbound, and its node is not deleted or moved to another deployment. A rollout binds nothing; a node
    that is gone has failed in it.
    """
    for vertex in vertices:
        deployment = vertex.record.deployment
        stored = world.task_runs.get(deployment) if vertex.record.task_run is not None else None
        if stored is not None and vertex.record.task_run in _live(stored.record):
            raise Conflict(_under_way(TASK_RUN, deployment, stored.record, f", and has {vertex.name}"))


def undriven(world: World, names: Iterable[str], fqdn: str) -> Iterator[Check]:
    """Checks, for a transaction, that nothing is driven in these deployments, or above them, that may know the node by name.

    Raises Conflict if something is.
    """
    line = list(dict.fromkeys(names))
    for deployment in line:  # grows while it is walked
        for kind, pointer in _pointers(world, deployment):
            if _live(pointer.record):
                raise Conflict(_under_way(kind, deployment, pointer.record, f", and may have {fqdn}"))
            yield Check(kind.pointer_path(deployment), pointer.version)
        stored = world.deployments.get(deployment)
        if stored is not None and stored.record.parent not in (None, *line):
            line.append(str(stored.record.parent))


def _live(pointer: Pointer) -> set[str | None]:
    """The ids of runs and rollouts that are under way, or being prepared."""
    live = {getattr(pointer, "preparing", None), None if pointer.over else pointer.newest}
    return live - {None}


def _pointers(world: World, deployment: str) -> Iterator[tuple[ExecutionKind[Any], Stored[Any]]]:
    """The pointers of a deployment: to its newest rollout and to its newest run of tasks, if it has any."""
    if (rollout := world.rollouts.get(deployment)) is not None:
        yield ROLLOUT, rollout
    if (task_run := world.task_runs.get(deployment)) is not None:
        yield TASK_RUN, task_run


def _under_way(kind: ExecutionKind[Any], deployment: str, pointer: Pointer, effect: str = "") -> str:
    prepared = getattr(pointer, "preparing", None)
    if prepared is None:
        return kind.under_way(Key(deployment, str(pointer.newest)), effect)
    ways = f"wait until it is over, or first: nodepool-ocb {kind.noun} {kind.end} {deployment}"
    return f"{kind.name(Key(deployment, prepared))} is being prepared{effect}; {ways}"


# -- its end --


def _ending(what: str, name: str) -> str:
    """The command that takes ``name`` out of its deployment."""
    if what == "node":
        return f"nodepool-ocb node move {name} DEPLOYMENT, or nodepool-ocb node delete {name}"
    return f"nodepool-ocb {'noderole unbind' if what == 'noderole' else 'deployment delete'} {name}"


def deletable(world: World, name: str) -> None:
    """Raises NotFound, or Conflict while anything (may) belong to the deployment, or a rollout of it is under way."""
    unreadable.refuse_end_of(world, name)
    of(world, name)
    if name == SYSTEM:
        raise Conflict(
            "deployment system cannot be deleted: every cluster has it, and all other deployments are below it;"
            " name another deployment"
        )
    children = sorted(each for each, stored in world.deployments.items() if stored.record.parent == name)
    own = {view.name for view in of_tasks(world, name)}
    views = (view for view in world.nodes.values() if view.name not in own)
    nodes = sorted(view.name for view in views if view.record and view.record.deployment == name)
    vertices = (vertex for vertex in world.vertices() if vertex.node.name not in own)
    bound = sorted(vertex.name for vertex in vertices if vertex.record.deployment == name)
    for what, there in (("deployment", children), ("node", nodes), ("noderole", bound)):
        if there:
            more = f" and {len(there) - 1} more" if len(there) > 1 else ""
            raise Conflict(f"deployment {name} still holds {what} {there[0]}{more}; first: {_ending(what, there[0])}")
    for kind, pointer in _pointers(world, name):
        if not pointer.record.over:
            raise Conflict(_under_way(kind, name, pointer.record))


def marking(world: World, name: str) -> Iterator[list[Change]]:
    """The transaction that begins a deletion in several transactions: nothing can enter the deployment from then on.

    So a later transaction is refused only where a record changed, and the repeated command finishes. The transaction is refused
    if a rollout or a run of tasks began, or was reserved, since the world was read. The world then shows the mark.
    """
    own = of(world, name)
    if own.record.deleting:
        return
    marked = replace(own.record, deleting=True)
    checks = [Check(kind.pointer_path(name), pointer.version) for kind, pointer in _pointers(world, name)]
    yield from structure.written(world, [*checks, Set(paths.deployment(name), marked, own.version)])
    world.put(Stored(marked, own.version + 1), name)


def of_tasks(world: World, name: str) -> list[NodeView]:
    """The virtual nodes that hold the stages of the deployment's task list: they go with it."""
    return [
        view
        for view in world.nodes.values()
        if view.record is not None
        and view.record.virtual
        and view.record.deployment == name
        and view.record.labels.get(OF_TASKS) == name
        and all(vertex.record.task_run is not None for vertex in view.noderoles.values())
    ]


def below(world: World, name: str) -> list[str]:
    """A deployment and all below it, itself first."""
    found = [name]
    for each in found:  # grows while it is walked; in a circle, which only a hand makes, each counts once
        children = (child for child, stored in world.deployments.items() if stored.record.parent == each)
        found += sorted(child for child in children if child not in found)
    return found


def living(world: World, name: str) -> Stored[Deployment]:
    """As ``of``, for a decision that lets something enter the deployment or stay in it; Conflict while it is being deleted."""
    stored = of(world, name)
    refuse_deleting(name, stored.record)
    return stored


def refuse_deleting(name: str, record: Deployment) -> None:
    """Raises Conflict if a deletion of the deployment has begun.

    >>> refuse_deleting("lab", Deployment())
    """
    if record.deleting:
        raise Conflict(
            f"deployment {name} is being deleted, and a part of it is gone; finish that first:"
            f" nodepool-ocb deployment delete {name}"
        )


def of(world: World, name: str) -> Stored[Deployment]:
    """Raises NotFound, or Conflict if its record cannot be read."""
    unreadable.refuse(world, [paths.deployment(name)])
    stored = world.deployments.get(name)
    if stored is None:
        raise NotFound(f"deployment {name} does not exist; see: nodepool-ocb deployment list")
    return stored
