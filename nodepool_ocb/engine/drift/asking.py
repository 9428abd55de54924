"""Which noderoles may be checked, and which schedule counts."""

from __future__ import annotations

from nodepool_ocb.engine.noderole import renewing
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.drift import Checks, Drift
from nodepool_ocb.model.records import DeploymentState, Role, State


def checkable(role: Role) -> bool:
    """Whether its noderoles can be checked."""
    return role.check is not None


def refusal(world: World, vertex: Vertex) -> str | None:
    """The reason why a noderole cannot be checked now, with the next step; None if it can, or if a check is requested already."""
    record, name = vertex.record, vertex.name
    stored = world.roles.get(vertex.role)
    if stored is None or not checkable(stored.record):
        return f"role {vertex.role} has no check; give it one in its barclamp (`check:`), and import that"
    if record.check is not None:
        return None
    if record.state is not State.ACTIVE:
        return f"{name} is {record.state}, and only ACTIVE noderoles are checked; see: nodepool-ocb noderole explain {name}"
    if renewing(record):
        return f"{name} already waits for a rerun; see: nodepool-ocb noderole explain {name}"
    deployment = world.deployments.get(record.deployment)
    if deployment is None or deployment.record.state is not DeploymentState.COMMITTED:
        commit = f"nodepool-ocb deployment commit {record.deployment} --no-noderoles"
        return f"{name} is in deployment {record.deployment}, where annealers may not work; first: {commit}"
    return None


def checks(world: World, deployment: str) -> Checks | None:
    """The schedule that counts in a deployment: its own, else that of the nearest deployment above it; None if none has one."""
    found = (stored.record.checks for each in world.line(deployment) if (stored := world.deployments.get(each)))
    return next((each for each in found if each is not None), None)


def to_be_mended(world: World, vertex: Vertex) -> bool:
    """Whether it has drifted, and its deployment has such noderoles run again.

    Not where that was done for this drift already, and changed nothing (``unmended``).
    """
    record = vertex.record
    if record.checked is None or record.checked.drift is not Drift.DRIFTED or record.checked.unmended:
        return False
    if record.state is not State.ACTIVE or record.refresh:
        return False
    wanted, deployment = checks(world, record.deployment), world.deployments.get(record.deployment)
    committed = deployment is not None and deployment.record.state is DeploymentState.COMMITTED
    mends = wanted is not None and wanted.refresh and committed
    return mends and not vertex.destructive and not vertex.unreadable and reachable(vertex)


def reachable(vertex: Vertex) -> bool:
    """Whether its machine can be asked now, as far as is known."""
    node = vertex.node.record
    return node is not None and node.alive and node.available and not (node.dying or node.deleting or node.virtual)
