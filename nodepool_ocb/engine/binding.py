"""What binding a role to a node creates, or why it may not be: planned whole, then written in one transaction.

A role's parents are the noderoles of the roles that it requires. Each is looked for on the same node, then, unless the
required role is *implicit*, in the deployment and its ancestors, nearest first, then by the node's name; a role that
*provides* the required one counts as it. What is found nowhere is bound too, on the same node. Every noderole of a
*cluster* role in the deployment is a parent, also of children bound earlier: they name the cluster, and each member says
which clusters it serves (a role that provides the cluster role serves it, too). A wanted attribute adds the noderole that
declares it as a parent where one is found, and binds nothing.

Pure. The same world gives the same plan, whichever order its roles came in. Sources: seed 000, "How the noderole graph is
built"; seed 001.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from nodepool_ocb.documents.cycles import components
from nodepool_ocb.engine import structure, unreadable
from nodepool_ocb.engine.noderole import bound
from nodepool_ocb.engine.parents import Draft, explicit
from nodepool_ocb.engine.world import ClusterView, NodeView, Vertex, World, node_of
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Check, Create, DeploymentRole, Gate, NodeRole, Raise, Role, State

#: The jigs that touch no machine: what a virtual node can have.
MACHINELESS: Final = frozenset({"noop", "test", "role-provided"})


#: A claim checks every parent that is named by itself, in one transaction with some ten other changes.
MOST_PARENTS: Final = limits.MOST_CHANGES - 30


class Plan(msgspec.Struct, frozen=True):
    """What a bind would write."""

    noderoles: tuple[tuple[str, NodeRole], ...]  # the new ones, parents first
    changes: tuple[Change, ...]
    explanations: tuple[str, ...]  # why each parent is the one, in words


def plan(
    world: World,
    role: str,
    fqdn: str,
    *,
    now: float,
    by: str | None = None,
    deployment: str | None = None,
    jigs: Collection[str] | None = None,
    parents: Collection[str] = (),
) -> Plan:
    """Bind one role to one node.

    ``jigs`` are the active ones (None: do not ask); ``parents`` names noderoles to take instead of those that would be
    chosen. Raises NotFound for an unknown role, node, deployment or parent; Conflict, with the next step, for what seeds
    000 and 001 forbid.
    """
    view = node_of(world, fqdn)
    return plan_all(world, [role], view, now=now, by=by, deployment=deployment, jigs=jigs, parents=parents)


def plan_all(
    world: World,
    roles: Iterable[str],
    view: NodeView,
    *,
    now: float,
    by: str | None = None,
    deployment: str | None = None,
    jigs: Collection[str] | None = None,
    parents: Collection[str] = (),
) -> Plan:
    """Bind several roles to one node, which may be one that is only planned."""
    assert view.record is not None, "a node that is bound to exists, or is about to"
    roles = list(roles)
    chosen = deployment or view.record.deployment
    unreadable.refuse_bind(world, view, chosen)
    if view.record.deleting:
        raise Conflict(f"node {view.name} is being deleted; nothing can be bound to it")
    if chosen not in world.deployments:
        raise NotFound(f"deployment {chosen} does not exist; nodepool-ocb deployment create {chosen}")
    binder = _Binder(world, view, chosen, jigs, explicit(world, parents))
    for role in roles:
        binder.bind(role)
    binder.want_attributes()
    return binder.finished(now, by)


class _Binder:
    """One bind under way: the noderoles that it would make, and the parents of each."""

    def __init__(
        self,
        world: World,
        view: NodeView,
        deployment: str,
        jigs: Collection[str] | None,
        given: Mapping[str, list[Vertex]],
    ) -> None:
        self._world, self._view, self._deployment, self._jigs = world, view, deployment, jigs
        self._draft = Draft(world, view, deployment, given)
        self._explanations: list[str] = []

    def bind(self, role: str, because: str | None = None) -> None:
        """Plan the role and all that it needs; iteratively, for chains may be long."""
        stack: list[tuple[str, Iterator[str]]] = []
        self._begin(role, because, stack)
        while stack:
            name, needs = stack[-1]
            need = next(needs, None)
            if need is None:
                self._draft.parents[name] = self._draft.parents.pop(name)  # after its parents: the order of creation
                stack.pop()
                continue
            pending = [name for name, _ in stack]
            if need in pending:
                circle = " → ".join([*pending[pending.index(need) :], need])
                raise Conflict(f"roles require each other in a circle: {circle}; take one of these requirements away")
            self._draft.role(need, name)
            names, why = self._draft.find(need, pending)
            if not names:
                self._begin(need, name, stack)
                names, why = [self._draft.own(need)], "found nowhere, so bound on the same node"
            self._draft.parents[name].update(names)
            self._explanations.append(f"{self._draft.name(name)} ← {', '.join(sorted(names))}: {why}")

    def _begin(self, role: str, because: str | None, stack: list[tuple[str, Iterator[str]]]) -> None:
        definition = self._draft.role(role, because)
        if role in self._view.noderoles or role in self._draft.parents:
            return
        self._permit(role, definition, because)
        shared = self._world.deployment_roles.get((self._deployment, role))
        if shared is not None and shared.record.deleting:
            raise Conflict(f"deployment {self._deployment} is being deleted; nothing can be bound in it")
        self._draft.parents[role] = set()
        stack.append((role, iter(sorted(set(definition.requires) - {role}))))

    def _permit(self, role: str, definition: Role, because: str | None) -> None:
        """Raises Conflict where the role may not be bound to the node."""
        wanted_by = f" (required by {because})" if because else ""
        if "abstract" in definition.flags:
            able = sorted(name for name, each in self._world.roles.items() if role in each.record.provides)
            hint = f"bind one that provides it first: {', '.join(able)}" if able else "no imported role provides it"
            raise Conflict(f"role {role} is abstract{wanted_by} and cannot be bound; {hint}")
        if self._jigs is not None and definition.jig not in self._jigs:
            raise Conflict(
                f"role {role}{wanted_by} needs jig {definition.jig}, which no annealer has;"
                " install what brings it, or start an annealer that has it"
            )
        assert self._view.record is not None, "a node that is bound to exists, or is about to"
        if self._view.record.virtual and definition.jig not in MACHINELESS:
            raise Conflict(
                f"role {role}{wanted_by} acts on a machine with jig {definition.jig}, and {self._view.name} is virtual;"
                " bind it to a node that has an address"
            )
        for other in (*self._view.noderoles, *self._draft.parents):
            self._permit_beside(role, definition, other, wanted_by)

    def _permit_beside(self, role: str, definition: Role, other: str, wanted_by: str) -> None:
        stored = self._world.roles.get(other)
        there = stored.record if stored else None
        where = f"on {self._view.name}"
        if other in definition.conflicts or (there and role in there.conflicts):
            raise Conflict(f"role {role}{wanted_by} conflicts with {other}, which is bound {where}; unbind it first")
        if other in definition.provides or (there and role in there.provides):
            raise Conflict(
                f"role {role}{wanted_by} and {other}, which is bound {where}, stand in for each other; one of them is enough"
            )

    # -- what else becomes a parent --

    def want_attributes(self) -> None:
        """Noderoles that declare what a new one wants to see come before it, where they are found."""
        declared = {
            attrib.name: name for name, each in sorted(self._world.roles.items()) for attrib in each.record.attribs
        }
        for role, parents in self._draft.parents.items():
            wanted = {declared[name] for name in self._draft.role(role).wants_attribs if name in declared} - {role}
            for need in sorted(wanted):
                names, why = self._draft.find(need)
                fresh = [name for name in names if name not in parents and not self._draft.reaches(name, role)]
                parents.update(fresh)
                self._explanations += [
                    f"{self._draft.name(role)} ← {name}: it declares what is wanted; {why}" for name in fresh
                ]

    # -- the plan --

    def finished(self, now: float, by: str | None) -> Plan:
        """Check the whole, and say what is to be written."""
        self._refuse_circles()
        for role, parents in self._draft.parents.items():
            self._permit_above(role)
            if len(parents) > MOST_PARENTS:
                raise Conflict(
                    f"{self._draft.name(role)} would have {len(parents)} parents, and a claim can check {MOST_PARENTS};"
                    " put a noop role on a virtual node between them"
                )
        new = [(self._draft.name(role), self._record(role, now, by)) for role in self._in_order()]
        changes: list[Change] = [
            Check(paths.deployment(self._deployment), self._world.deployments[self._deployment].version)
        ]
        if self._view.version >= 0:
            changes.append(Check(paths.node(self._view.name), self._view.version))
        for role in self._draft.parents:
            if (self._deployment, role) not in self._world.deployment_roles:
                changes.append(Create(paths.deployment_role(self._deployment, role), self._deployment_role(role)))
        for name, record in new:
            path = paths.noderole(*paths.split_noderole(name))
            changes += [Create(path, record), Create(f"{path}/runs")]
        gates = self._gates(new)
        changes += [*self._parents_stand({gate.path for gate in gates}), *gates]
        return Plan(tuple(new), tuple(structure.raised(self._world, changes)) if new else (), tuple(self._explanations))

    def _refuse_circles(self) -> None:
        """Raises Conflict where a new noderole would stand above itself: as a member of a cluster, or by given parents."""
        graph: dict[str, list[str]] = {}
        queue = [self._draft.name(role) for role in self._draft.parents]
        while queue:
            name = queue.pop()
            if name not in graph:
                graph[name] = list(self._draft.above(name))
                queue += graph[name]
        for knot in components(graph):
            if not knot.names.isdisjoint(map(self._draft.name, self._draft.parents)):
                raise Conflict(f"noderoles would wait for each other in a circle: {knot}; give another parent")

    def _permit_above(self, role: str) -> None:
        """Roles in a ``provides`` relation are not above or below each other (seed 001)."""
        own = self._draft.role(role)
        seen, queue = set[str](), list(self._draft.parents[role])
        while queue:
            name = queue.pop()
            if name in seen:
                continue
            seen.add(name)
            queue += self._draft.above(name)
            above = paths.split_noderole(name)[0]
            stored = self._world.roles.get(above)
            if above in own.provides or (stored and role in stored.record.provides):
                raise Conflict(
                    f"{self._draft.name(role)} would stand below {name}, and one of them stands in for the other;"
                    " bind it where it does not depend on it"
                )

    def _in_order(self) -> list[str]:
        """The new roles, parents first, else by name: the same for the same graph."""
        order: list[str] = []
        done: set[str] = set()
        stack = [iter(sorted(self._draft.parents))]
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
                own = (paths.split_noderole(name) for name in self._draft.named(role))
                stack.append(iter(sorted(r for r, fqdn in own if fqdn == self._view.name and r in self._draft.parents)))
        return order

    def _record(self, role: str, now: float, by: str | None) -> NodeRole:
        hooks = tuple(hook for hook in self._draft.role(role).hooks if hook == "on_proposed")
        parents = tuple(sorted(self._draft.parents[role]))
        return bound(
            now,
            by,
            deployment=self._deployment,
            parents=parents,
            serves=tuple(self._draft.serves(role)),
            generation=structure.stored(self._world).record.generation,
            hooks=hooks,
        )

    def _deployment_role(self, role: str) -> DeploymentRole:
        return DeploymentRole(
            hooks=tuple(hook for hook in self._draft.role(role).hooks if hook == "on_deployment_create")
        )

    def _gates(self, new: Iterable[tuple[str, NodeRole]]) -> list[Change]:
        """A member that joins raises the gate of its cluster, and the first makes it."""
        joined = {role: name for name, record in new for role in record.serves}
        there = (each for each in self._world.clusters.values() if each.deployment == self._deployment)
        known = {cluster.role for cluster in there if cluster.gate >= 0}
        made: list[Change] = []
        for role, name in sorted(joined.items()):
            path, gate = paths.gate(self._deployment, role), Gate(by=name)
            made.append(Raise(path, gate) if role in known else Create(path, gate))
        return made if known or not made else [Create(paths.clusters(self._deployment)), *made]

    def _parents_stand(self, raised: Collection[str]) -> Iterator[Check]:
        """Parents that exist are still there when the new noderoles are written; of clusters, their gates."""
        for name in sorted({name for parents in self._draft.parents.values() for name in parents}):
            parent = self._world.parent(name)
            if isinstance(parent, ClusterView):
                path, version = paths.gate(parent.deployment, parent.role), parent.gate
            elif parent is not None:
                path, version = paths.noderole(parent.role, parent.node.name), parent.version
            if parent is not None and path not in raised:
                yield Check(path, version)


def removable(vertex: Vertex) -> list[Vertex]:
    """What goes when a noderole is unbound: it and all below it, children first.

    Raises Conflict where something below was committed on another node, or works now, or a record that may be below
    cannot be read.
    """
    below: dict[Vertex, None] = {}
    queue = [vertex]
    unreadable.refuse_removal(vertex.node.world, [vertex.node])
    while queue:
        each = queue.pop()
        below.pop(each, None)
        below[each] = None  # again, at the end: children come after all their parents
        queue += each.children
    for each in below:
        if each is not vertex and each.node is not vertex.node and each.record.state is not State.PROPOSED:
            raise Conflict(f"{each.name} depends on {vertex.name}; unbind it first")
        if each.record.state is State.TRANSITION:
            raise Conflict(f"{each.name} is in TRANSITION; wait until it ends: nodepool-ocb noderole wait {each.name}")
    return list(reversed(below))
