"""The search for a parent: among the noderoles that exist, and those that a bind is about to create.

Pure; the order of the world's roles and nodes does not change the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Once, Role


def explicit(world: World, names: Collection[str]) -> dict[str, list[Vertex]]:
    """The noderoles of these names, by each role that they count as.

    Raises NotFound for an unknown name, Conflict for a noderole on a node that is being deleted.
    """
    chosen: dict[str, list[Vertex]] = {}
    for name in names:
        vertex = world.vertex(name)
        if vertex is None:
            raise NotFound(f"parent {name} does not exist; see: nodepool-ocb noderole list")
        if leaves(vertex.node):
            raise Conflict(
                f"node {vertex.node.name} is being deleted; wait until it is gone, or give another parent than {name}"
            )
        for each in (vertex.role, *world.role_of(vertex).provides):
            chosen.setdefault(each, []).append(vertex)
    return chosen


def standing(world: World, names: Iterable[str]) -> list[str]:
    """The names of these noderoles and clusters, in order. Raises the errors of ``explicit``; NotFound for an empty cluster."""
    names = list(names)
    explicit(world, [name for name in names if paths.split_cluster(name) is None])
    for name in names:
        if world.parent(name) is None:
            raise NotFound(f"cluster {name} has no member; bind one first")
    return names


def unknown_role(name: str, known: Iterable[str]) -> NotFound:
    """The error for a role that no imported barclamp defines; ``known``: the roles that there are."""
    meant = did_you_mean(name, known) or "; import its barclamp: nodepool-ocb barclamp import FILE"
    return NotFound(f"role {name} is not known{meant}")


class BindDraft:
    """The noderoles that one bind would create: ``parents`` maps each new role to its parents' names, in the order of binding.

    ``because`` maps it to the role that required it; None if the caller asked for it.
    """

    def __init__(self, world: World, view: NodeView, deployment: str, given: Mapping[str, list[Vertex]]) -> None:
        self.parents: dict[str, set[str]] = {}
        self.because: dict[str, str | None] = {}
        self.once: dict[str, Once] = {}  # of destructive roles that are bound again: their progress
        self.world, self.view, self.deployment, self._given = world, view, deployment, given
        self._line = lineage(world, deployment)

    def name(self, role: str) -> str:
        """The noderole of a role on the node that is bound to."""
        return paths.noderole_name(role, self.view.name)

    def role(self, name: str, because: str | None = None) -> Role:
        """Raises NotFound for an unknown role, Conflict if another role requires it."""
        stored = self.world.roles.get(name)
        if stored is None:
            if because is None:
                raise unknown_role(name, self.world.roles)
            raise Conflict(
                f"role {because} requires {name}, which no imported barclamp defines; import the one that does"
            )
        return stored.record

    def find(self, need: str, pending: Collection[str] = ()) -> tuple[list[str], str]:
        """The noderoles that serve as ``need``, and the reason for the choice; none if ``need`` must be bound.

        Roles in ``pending`` wait for this answer and cannot be chosen.
        """
        if need in self._given:
            return [vertex.name for vertex in self._given[need]], "given explicitly"
        able = self._able(need)
        planned = {name for name in self.parents if name not in pending}
        here = [name for name in sorted(able) if name in self.view.noderoles or name in planned][:1]
        if self.flagged(need, "implicit") and not here:
            return [], ""
        if self.flagged(need, "cluster"):
            return self._cluster(need, here, planned)
        if here:
            return self._one(here[0], self.name(here[0]), "bound on the same node", planned)
        for deployment in self._line:
            for first in self._in_deployment(deployment, able)[:1]:
                why = f"the first of role {need} in deployment {deployment}"
                return self._one(first.role, first.name, why, planned)
        return [], ""

    def _one(self, role: str, name: str, why: str, planned: Collection[str]) -> tuple[list[str], str]:
        """The noderole that was found; if its own role is a cluster role, the whole cluster."""
        if not self.flagged(role, "cluster"):
            return [name], why
        here = [each for each in sorted(self._able(role)) if each in self.view.noderoles or each in planned][:1]
        return self._cluster(role, here, planned)

    def _cluster(self, need: str, here: Iterable[str], planned: Collection[str]) -> tuple[list[str], str]:
        """Every noderole that serves as ``need`` in the nearest deployment that has one, and in the one of ``here``.

        ``here``: the roles that serve as it on the same node. Seed 001: a cluster is a parent as a whole.
        """
        able = self._able(need)
        taken = [view.record.deployment for name in here if (view := self.view.noderoles.get(name)) is not None]
        for deployment in self._line:
            serves = deployment == self.deployment and not able.isdisjoint(planned)
            if serves or self._in_deployment(deployment, able):
                taken.insert(0, deployment)
                break
        named = {self.name(name) for name in here}
        for deployment in dict.fromkeys(taken):
            named = set(self._members(need, deployment, self._in_deployment(deployment, able), named))
        why = f"every one of role {need} in deployment {' and '.join(dict.fromkeys(taken))}" if taken else ""
        return sorted(named), why or "bound on the same node"

    def _able(self, need: str) -> set[str]:
        """The roles that count as ``need``: itself, and those that provide it."""
        return {need} | {name for name, each in self.world.roles.items() if need in each.record.provides}

    def flagged(self, role: str, flag: str) -> bool:
        """Whether a role that is known has the flag."""
        stored = self.world.roles.get(role)
        return stored is not None and flag in stored.record.flags

    def _members(self, need: str, deployment: str, found: Iterable[Vertex], here: Iterable[str]) -> list[str]:
        """The cluster, with those of the noderoles that are no members of it: bound before the role was one, or elsewhere."""
        cluster = paths.cluster_name(need, deployment)
        members = set(self.above(cluster))
        names = {vertex.name for vertex in found}.union(here) - members
        return sorted({*names, cluster} if members else names)

    def serves(self, role: str) -> list[str]:
        """The cluster roles that a noderole of this role counts as."""
        roles = self.world.roles
        counts_as = (each for each in {role, *self.role(role).provides} if each in roles)
        return sorted(each for each in counts_as if "cluster" in roles[each].record.flags)

    def waiting(self, served: str) -> list[Vertex]:
        """The noderoles, bound before, that wait for every member of a cluster of this deployment."""
        cluster = self.world.clusters.get(paths.cluster_name(served, self.deployment))
        return cluster.below if cluster else []

    def _in_deployment(self, deployment: str, able: Collection[str]) -> list[Vertex]:
        found = [
            vertex
            for node in self.world.nodes.values()
            if not leaves(node)
            for name in able
            if (vertex := node.noderoles.get(name)) is not None and vertex.record.deployment == deployment
        ]
        return sorted(found, key=lambda vertex: (vertex.node.name, vertex.role))

    def above(self, name: str) -> Iterable[str]:
        """The names of a noderole's parents, or of the members of a cluster, with those of this bind."""
        of_cluster = paths.split_cluster(name)
        if of_cluster is not None:
            cluster = self.world.clusters.get(name)
            members = [vertex.name for vertex in cluster.members] if cluster else []
            planned = self.parents if of_cluster[1] == self.deployment else ()
            return members + [self.name(each) for each in planned if of_cluster[0] in self.serves(each)]
        role, fqdn = paths.split_noderole(name)
        if fqdn == self.view.name and role in self.parents:
            return self.parents[role]
        vertex = self.world.vertex(name)
        return vertex.record.parents if vertex else ()

    def reaches(self, start: str, role: str) -> bool:
        """Whether the planned noderole of ``role`` is an ancestor of ``start`` already: another edge would close a circle."""
        target, seen, queue = self.name(role), set[str](), [start]
        while queue:
            name = queue.pop()
            if name == target:
                return True
            if name not in seen:
                seen.add(name)
                queue += self.above(name)
        return False

    def opened(self, names: Iterable[str]) -> Iterator[str]:
        """The noderoles that are named, by themselves or as members of a cluster."""
        for name in names:
            if paths.split_cluster(name):
                yield from self.above(name)
            else:
                yield name


def leaves(node: NodeView) -> bool:
    """Whether it is being deleted, or its deployment is."""
    if node.record is None:
        return False
    deployment = node.world.deployments.get(node.record.deployment)
    return node.record.deleting or (deployment is not None and deployment.record.deleting)


def lineage(world: World, deployment: str) -> list[str]:
    """A deployment and its ancestors, nearest first."""
    line: list[str] = []
    name: str | None = deployment
    while name is not None and name in world.deployments and name not in line:
        line.append(name)
        name = world.deployments[name].record.parent
    return line
