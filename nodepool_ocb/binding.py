"""What binding a role to a node creates, or why it may not be: planned whole, then written in one transaction.

A role's parents are the noderoles of the roles that it requires. Each is looked for on the same node, then, unless the
required role is *implicit*, in the deployment and its ancestors, nearest first, then by the node's name; a role that
*provides* the required one counts as it. What is found nowhere is bound too, on the same node. Every noderole of a
*cluster* role in the deployment is a parent, also of children bound earlier. A wanted attribute adds the noderole that
declares it as a parent where one is found, and binds nothing.

Pure. The same world gives the same plan, whichever order its roles came in. Sources: seed 000, "How the noderole graph is
built"; seed 001.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb import structure, unreadable
from nodepool_ocb.claim import settling
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import Change, Check, Create, DeploymentRole, NodeRole, Role, State
from nodepool_ocb.noderole import with_hooks
from nodepool_ocb.store import paths
from nodepool_ocb.world import NodeView, Vertex, World, node_of

#: The jigs that touch no machine: what a virtual node can have.
MACHINELESS: Final = frozenset({"noop", "test", "role-provided"})


#: A claim checks every parent, in one transaction of at most 500 changes.
MOST_PARENTS: Final = 450


class Plan(msgspec.Struct, frozen=True):
    """What a bind comes to: nothing is written yet."""

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
    binder = _Binder(world, view, chosen, jigs, _explicit(world, parents))
    for role in roles:
        binder.bind(role)
    binder.want_attributes()
    return binder.finished(now, by)


def _explicit(world: World, names: Collection[str]) -> dict[str, list[Vertex]]:
    chosen: dict[str, list[Vertex]] = {}
    for name in names:
        vertex = world.vertex(name)
        if vertex is None:
            raise NotFound(f"parent {name} does not exist; see: nodepool-ocb noderole list")
        if _leaves(vertex.node):
            raise Conflict(f"node {vertex.node.name} is being deleted; nothing new can depend on {name}")
        for each in (vertex.role, *world.role_of(vertex).provides):
            chosen.setdefault(each, []).append(vertex)
    return chosen


class _Binder:
    """One bind under way: the noderoles that it would make, and the parents of each."""

    def __init__(
        self,
        world: World,
        view: NodeView,
        deployment: str,
        jigs: Collection[str] | None,
        explicit: Mapping[str, list[Vertex]],
    ) -> None:
        self._world, self._view, self._deployment = world, view, deployment
        self._jigs, self._explicit = jigs, explicit
        self._parents: dict[str, set[str]] = {}  # new role → names of its parents, in the order of binding
        self._explanations: list[str] = []
        self._line = lineage(world, deployment)

    def bind(self, role: str, because: str | None = None) -> None:
        """Plan the role and all that it needs; iteratively, for chains may be long."""
        stack: list[tuple[str, Iterator[str]]] = []
        self._begin(role, because, stack)
        while stack:
            name, needs = stack[-1]
            need = next(needs, None)
            if need is None:
                self._parents[name] = self._parents.pop(name)  # after its parents: the order of creation
                stack.pop()
                continue
            pending = [name for name, _ in stack]
            if need in pending:
                circle = " → ".join([*pending[pending.index(need) :], need])
                raise Conflict(f"roles require each other in a circle: {circle}; take one of these requirements away")
            self._role(need, name)
            names, why = self._find(need, pending)
            if not names:
                self._begin(need, name, stack)
                names, why = [self._name(need)], "found nowhere, so bound on the same node"
            self._parents[name].update(names)
            self._explanations.append(f"{self._name(name)} ← {', '.join(sorted(names))}: {why}")

    def _begin(self, role: str, because: str | None, stack: list[tuple[str, Iterator[str]]]) -> None:
        definition = self._role(role, because)
        if role in self._view.noderoles or role in self._parents:
            return
        self._permit(role, definition, because)
        shared = self._world.deployment_roles.get((self._deployment, role))
        if shared is not None and shared.record.deleting:
            raise Conflict(f"deployment {self._deployment} is being deleted; nothing can be bound in it")
        self._parents[role] = set()
        stack.append((role, iter(sorted(set(definition.requires) - {role}))))

    def _role(self, name: str, because: str | None = None) -> Role:
        stored = self._world.roles.get(name)
        if stored is None:
            if because is None:
                raise NotFound(f"role {name} is not known; import its barclamp: nodepool-ocb barclamp import FILE")
            raise Conflict(
                f"role {because} requires {name}, which no imported barclamp defines; import the one that does"
            )
        return stored.record

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
        for other in (*self._view.noderoles, *self._parents):
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

    # -- finding a parent --

    def _find(self, need: str, pending: Collection[str] = ()) -> tuple[list[str], str]:
        """The noderoles that serve as ``need``, and why these; none where it must be bound.

        What is ``pending`` waits for this very answer and cannot be it.
        """
        if need in self._explicit:
            return [vertex.name for vertex in self._explicit[need]], "given explicitly"
        stored = self._world.roles.get(need)
        able = {need} | {name for name, each in self._world.roles.items() if need in each.record.provides}
        cluster = stored is not None and "cluster" in stored.record.flags
        planned = [name for name in self._parents if name not in pending]
        here = [self._name(name) for name in sorted(able) if name in self._view.noderoles or name in planned][:1]
        implicit = stored is not None and "implicit" in stored.record.flags
        if not cluster and (here or implicit):
            return here, "bound on the same node"
        for deployment in self._line:
            found = [vertex.name for vertex in self._in_deployment(deployment, able)]
            if found and cluster:
                return sorted({*found, *here}), f"every one of role {need} in deployment {deployment}"
            if found:
                return found[:1], f"the first of role {need} in deployment {deployment}"
        return here, "bound on the same node"

    def _in_deployment(self, deployment: str, able: Collection[str]) -> list[Vertex]:
        found = [
            vertex
            for node in self._world.nodes.values()
            if not _leaves(node)
            for name in able
            if (vertex := node.noderoles.get(name)) is not None and vertex.record.deployment == deployment
        ]
        return sorted(found, key=lambda vertex: (vertex.node.name, vertex.role))

    def _name(self, role: str) -> str:
        return paths.noderole_name(role, self._view.name)

    # -- what else becomes a parent --

    def want_attributes(self) -> None:
        """Noderoles that declare what a new one wants to see come before it, where they are found."""
        declared = {
            attrib.name: name for name, each in sorted(self._world.roles.items()) for attrib in each.record.attribs
        }
        for role, parents in self._parents.items():
            wanted = {declared[name] for name in self._role(role).wants_attribs if name in declared} - {role}
            for need in sorted(wanted):
                names, why = self._find(need)
                fresh = [name for name in names if name not in parents and not self._reaches(name, role)]
                parents.update(fresh)
                self._explanations += [
                    f"{self._name(role)} ← {name}: it declares what is wanted; {why}" for name in fresh
                ]

    def _reaches(self, start: str, role: str) -> bool:
        """Whether the planned noderole of ``role`` stands above ``start`` already: another edge would close a circle."""
        target, seen, queue = self._name(role), set[str](), [start]
        while queue:
            name = queue.pop()
            if name == target:
                return True
            if name not in seen:
                seen.add(name)
                queue += self._above(name)
        return False

    def _above(self, name: str) -> Iterable[str]:
        role, fqdn = paths.split_noderole(name)
        if fqdn == self._view.name and role in self._parents:
            return self._parents[role]
        vertex = self._world.vertex(name)
        return vertex.record.parents if vertex else ()

    # -- the plan --

    def finished(self, now: float, by: str | None) -> Plan:
        """Check the whole, and say what is to be written."""
        for role, parents in self._parents.items():
            self._permit_above(role)
            if len(parents) > MOST_PARENTS:
                raise Conflict(
                    f"{self._name(role)} would have {len(parents)} parents, and a claim can check {MOST_PARENTS};"
                    " put a noop role on a virtual node between them"
                )
        new = [(self._name(role), self._record(role, now, by)) for role in self._in_order()]
        changes: list[Change] = [
            Check(paths.deployment(self._deployment), self._world.deployments[self._deployment].version)
        ]
        if self._view.version >= 0:
            changes.append(Check(paths.node(self._view.name), self._view.version))
        for role in self._parents:
            if (self._deployment, role) not in self._world.deployment_roles:
                changes.append(Create(paths.deployment_role(self._deployment, role), self._deployment_role(role)))
        for name, record in new:
            path = paths.noderole(*paths.split_noderole(name))
            changes += [Create(path, record), Create(f"{path}/runs")]
        later = self._later_children(now)
        written = {change.path for change in later}
        changes += [check for check in self._parents_stand() if check.path not in written]
        whole = structure.raised(self._world, (*changes, *later)) if new else ()
        return Plan(tuple(new), tuple(whole), tuple(self._explanations))

    def _permit_above(self, role: str) -> None:
        """Roles in a ``provides`` relation are not above or below each other (seed 001)."""
        own = self._role(role)
        seen, queue = set[str](), list(self._parents[role])
        while queue:
            name = queue.pop()
            if name in seen:
                continue
            seen.add(name)
            queue += self._above(name)
            above = paths.split_noderole(name)[0]
            stored = self._world.roles.get(above)
            if above in own.provides or (stored and role in stored.record.provides):
                raise Conflict(
                    f"{self._name(role)} would stand below {name}, and one of them stands in for the other;"
                    " bind it where it does not depend on it"
                )

    def _in_order(self) -> list[str]:
        """The new roles, parents first, else by name: the same for the same graph."""
        order: list[str] = []
        done: set[str] = set()
        stack = [iter(sorted(self._parents))]
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
                own = (paths.split_noderole(name) for name in self._parents[role])
                stack.append(iter(sorted(r for r, fqdn in own if fqdn == self._view.name and r in self._parents)))
        return order

    def _record(self, role: str, now: float, by: str | None) -> NodeRole:
        hooks = tuple(hook for hook in self._role(role).hooks if hook == "on_proposed")
        parents = tuple(sorted(self._parents[role]))
        return NodeRole(
            state=State.PROPOSED,
            since=now,
            deployment=self._deployment,
            parents=parents,
            generation=structure.stored(self._world).record.generation,
            by=by,
            hooks=hooks,
        )

    def _deployment_role(self, role: str) -> DeploymentRole:
        return DeploymentRole(hooks=tuple(hook for hook in self._role(role).hooks if hook == "on_deployment_create"))

    def _parents_stand(self) -> Iterator[Check]:
        """Parents that exist are still there when the new noderoles are written."""
        for name in sorted({name for parents in self._parents.values() for name in parents}):
            vertex = self._world.vertex(name)
            if vertex is not None:
                yield Check(paths.noderole(vertex.role, vertex.node.name), vertex.version)

    def _later_children(self, now: float) -> list[Change]:
        """Children of a cluster, bound earlier, wait for its new member as well."""
        changed: dict[Vertex, NodeRole] = {}
        for role in self._parents:
            if "cluster" not in self._role(role).flags:
                continue
            member = self._name(role)
            for sibling in self._in_deployment(self._deployment, {role}):
                for child in sibling.children:
                    if not self._is_above(child, member):
                        record = changed.get(child, child.record)
                        parents = tuple(sorted({*record.parents, member}))
                        changed[child] = replace(record, parents=parents)
        blocked = {
            child: replace(record, state=State.BLOCKED, since=now)
            if record.state in (State.TODO, State.ACTIVE, State.ERROR)
            else record
            for child, record in changed.items()
        }
        return list(settling(with_hooks(blocked)))  # what is below them the annealers settle

    def _is_above(self, child: Vertex, member: str) -> bool:
        seen, queue = set[str](), [member]
        while queue:
            name = queue.pop()
            if name == child.name:
                return True
            if name not in seen:
                seen.add(name)
                queue += self._above(name)
        return False


def _leaves(node: NodeView) -> bool:
    return node.record is not None and node.record.deleting


def lineage(world: World, deployment: str) -> list[str]:
    """A deployment and its ancestors, nearest first."""
    line: list[str] = []
    name: str | None = deployment
    while name is not None and name in world.deployments and name not in line:
        line.append(name)
        name = world.deployments[name].record.parent
    return line


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
