"""``deployment delete``."""

from __future__ import annotations

from nodepool_ocb.engine import deployments, nodes, structure
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Delete, Set
from nodepool_ocb.operations.deployments.configuring import hook_sentences
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.networks import placement
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.histories import ReadHistory, ReadTaskList, RefusePreparing
from nodepool_ocb.operations.reads.world import ReadDeletions, ReadWorld
from nodepool_ocb.tasks.runs import roles


class DeploymentDelete(Operation[Explained], frozen=True, kw_only=True):
    """Delete an empty deployment: its attributes and task list, and the records of its rollouts and runs of tasks.

    If that takes several transactions, the first one marks the deployment; from then on nothing can enter it.
    """

    noun = "deployment"
    verb = "delete"
    right = Right.OPERATOR
    reads = (ReadWorld, Agreement, RefusePreparing, ReadDeletions, ReadHistory, ReadTaskList)
    writes = (
        *("deployment", "deployment role", "node", "noderole", "role", "attributes"),
        *("rollout", "run of tasks", "task list"),
        *placement.WRITES,
    )

    name: str

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        if not situation.written:
            yield from self._agreed(world, situation)
        written: list[Change] = [*situation.written]
        steps = removal(world, self.name)
        changes = yield from steps
        written += changes
        then = f"then delete {self.name} once more; refusals: nodepool-ocb deployment show {self.name}"
        return Explained(after=hook_sentences(written, then))

    def _agreed(self, world: World, situation: Situation) -> Steps[None]:
        deployment_of(world, self.name)
        deployments.deletable(world, self.name)
        held = ", ".join(role for deployment, role in sorted(world.deployment_roles) if deployment == self.name)
        if not situation.call.dry_run:
            yield from Agreement(f"delete deployment {self.name} with the attributes of its roles ({held or 'none'})")


def removal(world: World, name: str) -> Steps[list[Change]]:
    """If roles have a hook for it: their removal by an annealer. Else, or after that: the deletion. Gives the changes."""
    deployments.deletable(world, name)
    if name in world.task_runs:
        yield from RefusePreparing(name)
    hooked: list[Change] = []
    for (deployment, role), below in sorted(world.deployment_roles.items()):
        known = world.roles.get(role)
        if deployment == name and known and deploymentroles.DELETE in known.record.hooks:
            marked = deploymentroles.marked(below.record)
            hooked.append(Set(paths.deployment_role(name, role), marked, below.version))
    if hooked:
        raised = structure.raised(world, hooked)
        yield raised
        return raised
    yield from _deletion(world, name)
    return []


def _deletion(world: World, name: str) -> Steps[None]:
    """One transaction if that bears everything; else the deployment is marked before anything goes."""
    own: list[Change] = []
    found = yield from ReadDeletions(paths.deployment(name))
    own += found
    if not own:
        raise Stale(f"deployment {name} is gone", paths.deployment(name))
    of_nodes: dict[str, list[Change]] = {}
    for view in deployments.of_tasks(world, name):
        of_nodes[view.name] = yield from ReadDeletions(paths.node(view.name))
    rollouts = yield from ReadHistory(paths.rollouts(name))
    runs = yield from ReadHistory(paths.task_runs(name))
    last: list[Change] = _roles_of_tasks(world, name)
    last += [*rollouts.top, *runs.top, *own]
    for fqdn, deletions in of_nodes.items():
        nodes.refuse_part(world, fqdn, deletions)
    former = [*rollouts.below, *runs.below]
    listed = yield from ReadTaskList(name)
    of_all_nodes = [change for deletions in of_nodes.values() for change in deletions]
    whole = structure.raised(world, [*of_all_nodes, *listed, *former, *last])
    if limits.fits(whole):
        yield whole
        return
    yield from deployments.marking(world, name)
    for fqdn, deletions in of_nodes.items():
        yield from nodes.taking_away(world, fqdn, deletions)
    emptied = [*rollouts.emptied, *runs.emptied]
    last[-1] = Delete(paths.deployment(name), world.deployments[name].version)
    yield from structure.in_parts(world, ([each] for each in [*listed, *emptied, *last]))


def _roles_of_tasks(world: World, name: str) -> list[Change]:
    source = roles.barclamp(name)
    return [
        Delete(paths.role(role), stored.version)
        for role, stored in world.roles.items()
        if stored.record.barclamp == source
    ]
