"""A role in a deployment: the refusals of its hooks, and its deletion.

on_deployment_create sets defaults and validates. If it raises, the reason is recorded as a refusal. Until it has succeeded,
the role's noderoles there do not start, and the deployment cannot be committed. on_deployment_delete may refuse the deletion
of the role: the role then stays, with the reason. A change of the role's attributes runs on_deployment_create again. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine import attributes, deployments, structure, unreadable
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Check, Create, Delete, DeploymentRole, Json, Role, Set

CREATE: Final = "on_deployment_create"
DELETE: Final = "on_deployment_delete"


def asked_again(record: DeploymentRole, role: Role) -> DeploymentRole:
    """The record after a person changed its attributes: its create hook runs again, and its former refusal is deleted."""
    if CREATE not in record.refused and (CREATE not in role.hooks or CREATE in record.hooks):
        return record
    hooks = tuple(name for name in record.hooks if name != CREATE)
    return replace(record, hooks=(*hooks, CREATE), refused=_without(record, CREATE))


def configured(world: World, deployment: str, role: str, user: Mapping[str, Json]) -> list[Change]:
    """Set the role's user attributes in the deployment; empty if they are the same already and the role has not refused them.

    The role must exist. Raises Conflict if the role is marked to leave, and the errors of ``deployments.living``.
    """
    unreadable.refuse(world, [paths.deployment_role(deployment, role)])
    deployments.living(world, deployment)
    path, stored = paths.deployment_role(deployment, role), world.deployment_roles.get((deployment, role))
    check = Check(paths.deployment(deployment), world.deployments[deployment].version)
    definition = world.roles[role].record
    if stored is None:
        hooks = tuple(hook for hook in definition.hooks if hook == CREATE)
        return structure.raised(world, [check, Create(path, DeploymentRole(user=user, hooks=hooks))])
    before = stored.record
    if before.deleting:
        raise Conflict(
            f"role {role} is leaving deployment {deployment}; wait until it has left, or:"
            f" nodepool-ocb deployment unset {deployment} {role} --force"
        )
    if attributes.same(user, before.user) and CREATE not in before.refused:
        return []
    after = replace(asked_again(before, definition), user=user)
    return [structure.unchanged(world), check, Set(path, after, stored.version)]


def refused(record: DeploymentRole, hook: str, reason: str) -> DeploymentRole:
    """The record after its hook raised ``reason``; if the hook was on_deployment_delete, the role stays."""
    hooks = tuple(name for name in record.hooks if name != hook)
    deleting = record.deleting and hook != DELETE
    return replace(record, hooks=hooks, deleting=deleting, refused={**record.refused, hook: reason})


def agreed(record: DeploymentRole, hook: str) -> DeploymentRole:
    """The record after its hook ran well."""
    hooks = tuple(name for name in record.hooks if name != hook)
    return replace(record, hooks=hooks, refused=_without(record, hook))


def marked(record: DeploymentRole) -> DeploymentRole:
    """The record of a role that leaves as soon as its hook agrees; its former refusal to leave is deleted."""
    hooks = tuple(dict.fromkeys((*record.hooks, DELETE)))  # if it stays, the hooks that waited before have run
    return replace(record, deleting=True, hooks=hooks, refused=_without(record, DELETE))


def _without(record: DeploymentRole, hook: str) -> dict[str, str]:
    return {name: reason for name, reason in record.refused.items() if name != hook}


def refuse_commit(world: World, deployment: str) -> None:
    """Raises Conflict if a role refuses to be in the deployment, with its reason and the ways out."""
    for (there, name), stored in sorted(world.deployment_roles.items(), key=lambda item: item[0]):
        if there == deployment and (reason := stored.record.refused.get(CREATE)):
            raise Conflict(
                f"role {name} refuses deployment {deployment}: {reason}; mend it, then: {_ways(deployment, name)}"
            )


def refuse_noderoles(world: World, vertices: Iterable[Vertex]) -> None:
    """Raises Conflict if the role of any of them refuses the deployment it is in: it would wait and not start."""
    for deployment, role in sorted({(vertex.record.deployment, vertex.role) for vertex in vertices}):
        if (why := refusing(world, deployment, role)) is not None:
            raise Conflict("; first: ".join(why))


def refusing(world: World, deployment: str, role: str) -> tuple[str, str] | None:
    """The refusal of the role to be there, and the next step; None if it agrees, or if its hook has yet to run."""
    stored = world.deployment_roles.get((deployment, role))
    reason = stored.record.refused.get(CREATE) if stored and CREATE not in stored.record.hooks else None
    if not reason:
        return None
    propose = f"nodepool-ocb deployment propose {deployment}, and mend it: {_ways(deployment, role)}"
    return f"role {role} refuses deployment {deployment}: {reason}", propose


def holding(world: World, deployment: str, role: str) -> tuple[str, str] | None:
    """Why noderoles of the role do not start there, and the next step; None if it agrees to be there."""
    stored = world.deployment_roles.get((deployment, role))
    if stored is None:
        return None
    if CREATE in stored.record.hooks:
        return f"{CREATE} of role {role} has not run in deployment {deployment} yet", "wait; an annealer runs it"
    return refusing(world, deployment, role)


def _ways(deployment: str, role: str) -> str:
    return (
        f"nodepool-ocb deployment set {deployment} {role} PATH=JSON, which asks again;"
        f" or take the role out: nodepool-ocb deployment unset {deployment} {role}"
    )


def leaving(world: World, deployment: str, role: str, force: bool = False) -> list[Change]:
    """The role leaves the deployment: at once, or after an annealer has run its on_deployment_delete.

    ``force``: that hook is not run. Raises NotFound if the role is not there, Conflict while noderoles of it are bound there.
    """
    unreadable.refuse_end_of(world, deployment)
    stored = world.deployment_roles.get((deployment, role))
    if stored is None:
        raise NotFound(f"role {role} is not in deployment {deployment}; see: nodepool-ocb deployment show {deployment}")
    refuse_bound(world, deployment, role)
    path, known = paths.deployment_role(deployment, role), world.roles.get(role)
    if force or known is None or DELETE not in known.record.hooks:
        return structure.raised(world, [Delete(path, stored.version)])
    return structure.raised(world, [Set(path, marked(stored.record), stored.version)])


def refuse_bound(world: World, deployment: str, role: str) -> None:
    """Raises Conflict while noderoles of the role are bound in the deployment, naming them and the way."""
    bound = sorted(v.name for v in world.vertices() if v.role == role and v.record.deployment == deployment)
    if bound:
        raise Conflict(
            f"role {role} is bound in deployment {deployment}: {some(bound)}; first: nodepool-ocb noderole unbind {bound[0]}"
        )
