"""Deployments: one a row, one with its roles and noderoles, and its place in the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from nodepool_ocb.engine import deployments, maintenance
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Deployment, DeploymentState, Json, State
from nodepool_ocb.views.view import View


class DeploymentRow(View, frozen=True, kw_only=True):
    """A deployment at a glance."""

    name: str
    parent: str | None
    state: DeploymentState
    noderoles: str | None  # how many are in which state: "1 ERROR, 3 ACTIVE"
    since: float
    by: str | None
    paused: str | None  # the author, end and reason of the pause; its own, or that of the uppermost above it
    deleting: bool  # a deletion in several transactions has begun


class Configured(View, frozen=True, kw_only=True):
    """A role with the attributes that it has in the whole deployment."""

    role: str
    user: Mapping[str, Json]
    system: Mapping[str, Json]
    hooks: tuple[str, ...]  # that are still to run
    refused: Mapping[str, str]  # hook → why it refuses


class BoundInDeployment(View, frozen=True, kw_only=True):
    """A noderole that is bound in it."""

    noderole: str
    state: State
    since: float


class DeploymentDocument(View, frozen=True, kw_only=True):
    """One deployment."""

    name: str
    record: Deployment
    paused: str | None  # the author, end and reason of the pause; its own, or that of the uppermost above it
    below: tuple[str, ...]  # the deployments below it
    roles: tuple[Configured, ...]
    noderoles: tuple[BoundInDeployment, ...]


class DeploymentBranch(View, frozen=True):
    """A deployment of the tree with those that are shown below it."""

    name: str
    below: tuple[DeploymentBranch, ...] = ()


def rows(world: World, now: float, among: Collection[str] | None = None) -> list[DeploymentRow]:
    """All of them, parents before children; ``among``: the noderoles that are counted, None: all."""
    counts: dict[str, Counter[State]] = {}
    for vertex in world.counted():
        if among is None or vertex.name in among:
            counts.setdefault(vertex.record.deployment, Counter())[vertex.record.state] += vertex.node.stands_for
    order = deployments.below(world, deployments.SYSTEM) if deployments.SYSTEM in world.deployments else []
    names = [*order, *sorted(world.deployments.keys() - set(order))]
    return [_row(world, name, counts.get(name, Counter()), now) for name in names]


def _row(world: World, name: str, counts: Counter[State], now: float) -> DeploymentRow:
    record = world.deployments[name].record
    return DeploymentRow(
        name=name,
        parent=record.parent,
        state=record.state,
        noderoles=", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or None,
        since=record.since,
        by=record.by,
        paused=_paused(world, name, now),
        deleting=record.deleting,
    )


def _paused(world: World, name: str, now: float) -> str | None:
    return next((maintenance.sentence(pause) for pause in maintenance.pauses(world, name, now).values()), None)


def document(world: World, name: str, now: float) -> DeploymentDocument:
    """A deployment that exists."""
    declared = concealing.of_world(world)
    roles = [
        Configured(
            role=role,
            user=concealing.wrapped(stored.record.user, declared),
            system=concealing.wrapped(stored.record.system, declared),
            hooks=stored.record.hooks,
            refused=stored.record.refused,
        )
        for (deployment, role), stored in sorted(world.deployment_roles.items())
        if deployment == name
    ]
    bound = [
        BoundInDeployment(noderole=vertex.name, state=vertex.record.state, since=vertex.record.since)
        for vertex in sorted(world.vertices(), key=lambda each: each.name)
        if vertex.record.deployment == name
    ]
    return DeploymentDocument(
        name=name,
        record=world.deployments[name].record,
        paused=_paused(world, name, now),
        below=tuple(deployments.below(world, name)[1:]),
        roles=tuple(roles),
        noderoles=tuple(bound),
    )


def tree(world: World, name: str) -> DeploymentBranch:
    """A deployment with all above and all below it, from the top."""
    children: dict[str, list[str]] = {}
    for each in deployments.below(world, name)[1:]:
        children.setdefault(str(world.deployments[each].record.parent), []).append(each)

    def branch(each: str) -> DeploymentBranch:
        return DeploymentBranch(each, tuple(map(branch, children.get(each, ()))))

    made, seen = branch(name), [name]
    while (parent := world.deployments[seen[-1]].record.parent) in world.deployments and parent not in seen:
        seen.append(str(parent))
        made = DeploymentBranch(seen[-1], (made,))
    return made
