"""The reasons why a rollout does not begin. Pure: each function yields its reads."""

from __future__ import annotations

from typing import Final

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine.deployments import below
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model.executions import ROLLOUT, Key
from nodepool_ocb.model.records import DeploymentState, State
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.operation import Note, Steps
from nodepool_ocb.operations.reads.rollouts import (
    EnterLine,
    ReadNewestRollout,
    ReadRollout,
    ReadRolloutDriver,
    WithoutTaskRun,
)
from nodepool_ocb.operations.rollouts import again
from nodepool_ocb.operations.rollouts.stages import StagedRollout
from nodepool_ocb.rollout.observer import Observer
from nodepool_ocb.rollout.records import Rollout, RolloutState
from nodepool_ocb.views.times import age

READS: Final = (ReadNewestRollout, ReadRollout, ReadRolloutDriver, WithoutTaskRun, EnterLine)


def refuse(world: World, deployment: str, rollout: Rollout, now: float) -> Steps[None]:
    """Raises Conflict, Invalid or NotFound if the rollout could not be carried out."""
    yield from _refuse_another(deployment, now)
    yield from WithoutTaskRun(deployment)
    yield from EnterLine(deployment)
    for each in below(world, deployment):
        if world.deployments[each].record.state is DeploymentState.PROPOSED:
            advice = (
                f"nodepool-ocb deployment commit {each} --no-noderoles lets them in, and leaves the rest to the rollout"
            )
            raise Conflict(f"deployment {each} is PROPOSED, and annealers keep out of it; {advice}")
    for phase in rollout.head.strategy.phases:
        for role in phase.roles:
            if role not in world.roles:
                raise unknown("role", role, world.roles)


def _refuse_another(deployment: str, now: float) -> Steps[None]:
    newest = yield from ReadNewestRollout(deployment)
    found = (yield from ReadRollout(deployment, newest)) if newest is not None else None
    if newest is None or found is None or found.over:
        return
    key, head = Key(deployment, newest), found.head
    holder = yield from ReadRolloutDriver(*key)
    driver = f"{holder.daemon} on {holder.host} drives it" if holder else "no annealer drives it now"
    start = f"{head.by or 'an unknown user'} started it {age(now - head.started)} ago"
    end = "" if head.state is RolloutState.CANCELLING else f", or end it: nodepool-ocb rollout cancel {key}"
    raise Conflict(
        f"{ROLLOUT.name(key)} is under way: {start}, it is {head.state}, and {driver};"
        f" wait for it: nodepool-ocb rollout wait {key}{end}"
    )


def refuse_nothing(
    world: World, deployment: str, rollout: Rollout, sending: StagedRollout | None
) -> Steps[set[Vertex]]:
    """The noderoles that it sends. Raises Conflict without any; notes name noderoles that stay PROPOSED, and those in ERROR."""
    observer = Observer(world, deployment, rollout)
    grouped = {node for members in rollout.members.values() for node in members}
    phases = range(len(rollout.head.strategy.phases))
    taken = {vertex for node in grouped for phase in phases for vertex in observer.noderoles(node, phase)}
    if rollout.head.again is not None:
        yield from again.refuse_nothing(world, rollout, taken)
    else:
        yield from _refuse_nothing_proposed(world, deployment, rollout, taken, sending)
    return taken


def _refuse_nothing_proposed(
    world: World, deployment: str, rollout: Rollout, taken: set[Vertex], sending: StagedRollout | None
) -> Steps[None]:
    within = frozenset(below(world, deployment))
    there = [vertex for node in rollout.nodes for vertex in world.nodes[node].noderoles.values()]
    proposed = {v for v in there if v.record.state is State.PROPOSED and v.record.deployment in within}
    proposed -= {vertex for vertex in proposed - taken if vertex.record.task_run is not None}
    if not proposed & taken and not (sending and sending.waiting):
        left = counted(len(proposed), "noderole is", "noderoles are")
        many = f"; {left} in no phase of it, or on nodes in no group" if proposed else ""
        raise Conflict(
            f"nothing that this rollout would commit in deployment {deployment} is PROPOSED{many};"
            " bind roles first, or: nodepool-ocb noderole list --state PROPOSED"
        )
    if proposed - taken:
        some = ", ".join(sorted(vertex.name for vertex in proposed - taken)[:3])
        left = counted(len(proposed - taken), "noderole stays", "noderoles stay")
        yield Note(f"note: {left} PROPOSED, in no phase or on nodes in no group: {some}")
    broken = sorted(vertex.name for vertex in taken if vertex.record.state is State.ERROR)
    if broken:
        many = f"{len(broken)} noderole" + ("s are" if len(broken) != 1 else " is")
        yield Note(
            f"note: {many} in ERROR already, so that the nodes fail: {', '.join(broken[:3])};"
            " mend the cause, then: nodepool-ocb noderole retry"
        )


def refuse_hopeless(problems: tuple[str, ...], force: bool) -> Steps[None]:
    """Raises Invalid for criteria that cannot be met, and for parents after their children; with ``force`` notes name them."""
    if problems and not force:
        raise Invalid([f"{each}; --force starts it all the same" for each in problems])
    for each in problems:
        yield Note(f"warning: {each}")
