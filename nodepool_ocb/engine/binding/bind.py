"""One bind: the roles that it needs, and the parents of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine import deployments, unreadable
from nodepool_ocb.engine.binding import refusals
from nodepool_ocb.engine.binding.parents import BindDraft, explicit, standing
from nodepool_ocb.engine.binding.transaction import BindPlan, written
from nodepool_ocb.engine.world import NodeView, Vertex, World, node_of
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Once


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
) -> BindPlan:
    """Bind one role to one node.

    ``jigs`` are the active ones (None: skip this test). ``parents`` names noderoles to take instead of those that would be
    chosen. Raises NotFound for an unknown role, node, deployment or parent; Conflict, with the next step, for a bind that
    seeds 000 and 001 forbid.
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
) -> BindPlan:
    """Bind several roles to one node, which may be one that is only planned."""
    binder = _binder(world, view, deployment, jigs, explicit(world, parents))
    for role in list(roles):
        binder.bind(role)
    binder.want_attributes()
    return binder.finished(now, by)


def _binder(
    world: World,
    view: NodeView,
    deployment: str | None,
    jigs: Collection[str] | None,
    given: Mapping[str, list[Vertex]],
) -> _Binder:
    """Raises NotFound, or Conflict if nothing may be bound to the node now."""
    assert view.record is not None, "a node that is bound to exists, or is about to"
    chosen = deployment or view.record.deployment
    unreadable.refuse_bind(world, view, chosen)
    for name in {chosen, view.record.deployment} & world.deployments.keys():
        deployments.refuse_deleting(name, world.deployments[name].record)
    if view.record.deleting:
        raise Conflict(f"node {view.name} is being deleted; wait until it is gone, or name another node")
    if chosen not in world.deployments:
        raise NotFound(f"deployment {chosen} does not exist; first: nodepool-ocb deployment create {chosen}")
    return _Binder(world, view, chosen, jigs, given)


def restore(
    world: World,
    role: str,
    view: NodeView,
    parents: Collection[str],
    *,
    now: float,
    by: str | None = None,
    deployment: str | None = None,
    jigs: Collection[str] | None = None,
    once: Once | None = None,
) -> BindPlan:
    """Bind one role below exactly these parents (noderoles and clusters), and bind nothing else: as a site file says.

    ``once``: the progress of a destructive role that was bound before. Raises the errors of ``plan_all``.
    """
    binder = _binder(world, view, deployment, jigs, {})
    binder.put(role, parents, once)
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
        self._draft = BindDraft(world, view, deployment, given)
        self._explanations: list[str] = []
        self._elsewhere: list[str] = []

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
                circle = " -> ".join([*pending[pending.index(need) :], need])
                raise Conflict(f"roles require each other in a circle: {circle}; take one of these requirements away")
            self._draft.role(need, name)
            names, why = self._draft.find(need, pending)
            if not names:
                self._begin(need, name, stack)
                names, found = self._draft.find(need, pending)
                where = "not on this node yet" if self._draft.flagged(need, "implicit") else "found nowhere"
                why = f"{where}, so bound on the same node" + (
                    f"; {found}" if self._draft.flagged(need, "cluster") else ""
                )
            self._draft.parents[name].update(names)
            self._explain(name, names, why)

    def _begin(self, role: str, because: str | None, stack: list[tuple[str, Iterator[str]]]) -> None:
        definition = self._draft.role(role, because)
        if role in self._view.noderoles or role in self._draft.parents:
            return
        refusals.refuse_role(self._draft, role, because, self._jigs)
        self._draft.parents[role], self._draft.because[role] = set(), because
        stack.append((role, iter(sorted(set(definition.requires) - {role}))))

    def put(self, role: str, parents: Iterable[str], once: Once | None) -> None:
        """Plan the role alone, below these."""
        self._draft.role(role)
        if role in self._view.noderoles:
            return
        refusals.refuse_role(self._draft, role, None, self._jigs)
        self._draft.parents[role], self._draft.because[role] = set(standing(self._world, parents)), None
        if once is not None:
            self._draft.once[role] = once

    # -- further parents --

    def want_attributes(self) -> None:
        """Add the noderoles that declare wanted attributes of a new noderole to its parents, if they are found."""
        declared = {
            attrib.name: name for name, each in sorted(self._world.roles.items()) for attrib in each.record.attribs
        }
        for role, parents in self._draft.parents.items():
            wanted = {declared[name] for name in self._draft.role(role).wants_attribs if name in declared} - {role}
            for need in sorted(wanted):
                names, why = self._draft.find(need)
                fresh = [name for name in names if name not in parents and not self._draft.reaches(name, role)]
                parents.update(fresh)
                for name in fresh:
                    self._explain(role, [name], f"it declares a wanted attribute; {why}")

    def _explain(self, role: str, names: Iterable[str], why: str) -> None:
        line = f"{self._draft.name(role)} ← {', '.join(sorted(names))}: {why}"
        self._explanations.append(line)
        if any(paths.split_noderole(each)[1] != self._view.name for each in self._draft.opened(names)):
            self._elsewhere.append(line)

    def _explain_members(self, role: str) -> None:
        """Explain that the children of a cluster, bound earlier, wait for its new member."""
        for served in self._draft.serves(role):
            below = sorted(vertex.name for vertex in self._draft.waiting(served))
            if below:
                more = f" and {counted(len(below) - 2, 'other')}" if len(below) > 2 else ""
                line = (
                    f"{', '.join(below[:2])}{more} ← {self._draft.name(role)}: it is a new member of cluster {served}"
                    f" in deployment {self._deployment}; the noderoles below wait until it is ACTIVE"
                )
                self._explanations.append(line)
                self._elsewhere.append(line)

    def finished(self, now: float, by: str | None) -> BindPlan:
        """Check the whole plan and return it, with its changes."""
        refusals.refuse_whole(self._draft)
        for role in sorted(self._draft.parents):
            self._explain_members(role)
        new, changes = written(self._draft, now, by)
        return BindPlan(new, changes, tuple(self._explanations), tuple(self._elsewhere))
