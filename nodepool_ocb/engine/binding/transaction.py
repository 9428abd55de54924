"""The transaction of a bind: its new noderoles, with a check of all that they were decided from. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from nodepool_ocb.engine import structure
from nodepool_ocb.engine.binding.parents import BindDraft
from nodepool_ocb.engine.noderole import bound
from nodepool_ocb.engine.world import ClusterView
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Check, Create, DeploymentRole, Gate, NodeRole, Raise


class BindPlan(msgspec.Struct, frozen=True):
    """The noderoles and the changes of a bind."""

    noderoles: tuple[tuple[str, NodeRole], ...]  # the new ones, parents first
    changes: tuple[Change, ...]
    explanations: tuple[str, ...]  # the reason for the choice of each parent
    elsewhere: tuple[str, ...]  # those of them that concern other nodes


def written(
    draft: BindDraft, now: float, by: str | None
) -> tuple[tuple[tuple[str, NodeRole], ...], tuple[Change, ...]]:
    """The new noderoles of a draft that nothing forbids, and the transaction."""
    new = [(draft.name(role), _record(draft, role, now, by)) for role in _in_order(draft)]
    changes: list[Change] = [
        Check(paths.deployment(draft.deployment), draft.world.deployments[draft.deployment].version)
    ]
    if draft.view.version >= 0:
        changes.append(Check(paths.node(draft.view.name), draft.view.version))
    for role in draft.parents:
        if (draft.deployment, role) not in draft.world.deployment_roles:
            changes.append(Create(paths.deployment_role(draft.deployment, role), _deployment_role(draft, role)))
    for name, record in new:
        path = paths.noderole(*paths.split_noderole(name))
        changes += [Create(path, record), Create(f"{path}/runs")]
    gates = _gates(draft, new)
    changes += [*_parents_stand(draft, {gate.path for gate in gates}), *gates]
    return tuple(new), tuple(structure.raised(draft.world, changes)) if new else ()


def _in_order(draft: BindDraft) -> list[str]:
    """The new roles, parents first, else by name: the same for the same graph."""
    order: list[str] = []
    done: set[str] = set()
    stack = [iter(sorted(draft.parents))]
    path: list[str] = []
    while stack:
        role = next(stack[-1], None)
        if role is None:
            stack.pop()
            if path:
                order.append(path.pop())
        elif role not in done:
            done.add(role)
            path.append(role)
            own = (paths.split_noderole(name) for name in draft.opened(draft.parents[role]))
            stack.append(iter(sorted(r for r, fqdn in own if fqdn == draft.view.name and r in draft.parents)))
    return order


def _record(draft: BindDraft, role: str, now: float, by: str | None) -> NodeRole:
    hooks = tuple(hook for hook in draft.role(role).hooks if hook == "on_proposed")
    parents = tuple(sorted(draft.parents[role]))
    return bound(
        now,
        by,
        deployment=draft.deployment,
        parents=parents,
        serves=tuple(draft.serves(role)),
        generation=structure.stored(draft.world).record.generation,
        hooks=hooks,
        once=draft.once.get(role),
    )


def _deployment_role(draft: BindDraft, role: str) -> DeploymentRole:
    return DeploymentRole(hooks=tuple(hook for hook in draft.role(role).hooks if hook == "on_deployment_create"))


def _gates(draft: BindDraft, new: Iterable[tuple[str, NodeRole]]) -> list[Change]:
    """A member that joins raises the gate of its cluster, and the first makes it."""
    joined = {role: name for name, record in new for role in record.serves}
    there = (each for each in draft.world.clusters.values() if each.deployment == draft.deployment)
    known = {cluster.role for cluster in there if cluster.gate >= 0}
    made: list[Change] = []
    for role, name in sorted(joined.items()):
        path, gate = paths.gate(draft.deployment, role), Gate(by=name)
        made.append(Raise(path, gate) if role in known else Create(path, gate))
    return made if known or not made else [Create(paths.clusters(draft.deployment)), *made]


def _parents_stand(draft: BindDraft, raised: Collection[str]) -> Iterator[Check]:
    """Parents that exist are still there when the new noderoles are written; of clusters, their gates."""
    for name in sorted({name for parents in draft.parents.values() for name in parents}):
        parent = draft.world.parent(name)
        if isinstance(parent, ClusterView):
            path, version = paths.gate(parent.deployment, parent.role), parent.gate
        elif parent is not None:
            path, version = paths.noderole(parent.role, parent.node.name), parent.version
        if parent is not None and path not in raised:
            yield Check(path, version)
