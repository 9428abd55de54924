"""The noderoles of a plan: bound, with their attributes, and committed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from graphlib import CycleError, TopologicalSorter

from nodepool_ocb.catalogue import rules
from nodepool_ocb.engine import attributes, binding, commands, deployments, unreadable
from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import Vertex, node_of
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Check, Create, Role, Set, State
from nodepool_ocb.site import given
from nodepool_ocb.site.desired_state import Blob, Commitment, DesiredNoderole
from nodepool_ocb.site.steps import Planning


def bound(plan: Planning) -> None:
    """Bind every noderole that is missing, parents first; raises Conflict if one exists in another way."""
    if all(map(partial(_is_there, plan), plan.wanted.noderoles())):
        return  # their order costs much, and decides nothing
    for each in _parents_first(plan):
        vertex = plan.vertex(each)
        with each.place.blamed():
            if vertex is None:
                _bind(plan, each)
            else:
                _compare(plan, each, vertex)


def _is_there(plan: Planning, each: DesiredNoderole) -> bool:
    """Whether it exists, and as the files state it."""
    vertex = plan.vertex(each)
    try:
        if vertex is not None:
            _compare(plan, each, vertex)
    except Conflict:
        return False
    return vertex is not None


def _bind(plan: Planning, each: DesiredNoderole) -> None:
    about, view = plan.about, node_of(plan.world, each.fqdn)
    if each.parents is None and each.once is None:
        found = binding.plan(
            plan.world, each.role, each.fqdn, now=about.now, by=about.by, deployment=each.deployment, jigs=about.jigs
        )
    else:
        found = binding.restore(
            plan.world, each.role, view, each.parents or (), now=about.now, by=about.by, deployment=each.deployment,
            jigs=about.jigs, once=each.once,
        )  # fmt: skip
    plan.packing.take(found.changes)
    for name, record in found.noderoles:
        plan.made.add(name)
        plan.step("create", "noderole", name, [record.deployment, *record.parents])
    plan.notes += found.elsewhere


def _compare(plan: Planning, each: DesiredNoderole, vertex: Vertex) -> None:
    record = vertex.record
    commands.refuse_tasks([vertex])
    first = f"first: nodepool-ocb noderole unbind {vertex.name}"
    if vertex.name in plan.made:  # by this plan, as of every new node
        first = "each new node gets this role: leave the key out here, or write `whole: true` at the top of the file"
    if each.deployment not in (None, record.deployment):
        raise Conflict(f"{vertex.name} is bound in deployment {record.deployment}, not in {each.deployment}; {first}")
    if each.parents is not None and each.parents != tuple(sorted(record.parents)):
        there = ", ".join(record.parents) or "nothing"
        raise Conflict(f"{vertex.name} waits for {there}, not for {', '.join(each.parents) or 'nothing'}; {first}")


def _parents_first(plan: Planning) -> Iterator[DesiredNoderole]:
    """The wanted noderoles, each after its parents. If a file names no parents, a noderole comes after all those of the
    roles that its role requires.
    """
    wanted = {each.name: each for each in plan.wanted.noderoles()}
    catalogue = plan.catalogue
    able = _able(catalogue)
    graph: dict[str, set[str]] = {name: set(_before(each, catalogue)) for name, each in wanted.items()}
    for each in wanted.values():
        for counts in able.get(each.role, {each.role}):
            for gathered in (f"{counts}@", *_clusters(plan, each, counts)):
                graph.setdefault(gathered, set()).add(each.name)
    graph = {name: {each for each in before if each in graph and each != name} for name, before in graph.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as circle:
        names = [name for name in circle.args[1] if name in wanted]
        raise Conflict(
            wanted[names[0]].place.fault(
                f"noderoles wait for each other in a circle: {' -> '.join(names)}; take one of these parents away"
            )
        ) from circle
    return (wanted[name] for name in order if name in wanted)


def _able(catalogue: Mapping[str, Role]) -> dict[str, set[str]]:
    """The roles that each role counts as: itself, and the roles that it provides."""
    return {name: {name, *role.provides} for name, role in catalogue.items()}


def _before(each: DesiredNoderole, catalogue: Mapping[str, Role]) -> Iterator[str]:
    """The vertices before a noderole: its parents, or all of a role, written ``role@``."""
    if each.parents is not None:
        yield from each.parents
    elif each.role in catalogue:
        role = catalogue[each.role]
        yield from (f"{need}@" for need in role.requires if need != each.role and need not in role.provides)


def _clusters(plan: Planning, each: DesiredNoderole, counts: str) -> Iterator[str]:
    """The cluster that a noderole will be a member of, where it is one of this role."""
    stored = plan.world.roles.get(counts)
    if stored is not None and "cluster" in stored.record.flags:
        node = plan.world.nodes.get(each.fqdn)
        own = node.record.deployment if node is not None and node.record is not None else ""
        yield paths.cluster_name(counts, each.deployment or own)


# -- attributes --


def attributed(plan: Planning) -> None:
    """Plan the user attributes of each noderole; raises Invalid if the schemas of its role refuse them."""
    catalogue = plan.catalogue
    for each in plan.wanted.noderoles():
        before = plan.kept.get(paths.user(each.role, each.fqdn))
        if each.user is not None and not attributes.same(each.user, before.value if before else {}):
            with each.place.blamed():
                _give(plan, each, each.user, catalogue)


def _give(plan: Planning, each: DesiredNoderole, user: Blob, catalogue: Mapping[str, Role]) -> None:
    vertex = plan.vertex(each)
    assert vertex is not None, "all are bound by now"
    permitted = deployments.changeable(plan.world, vertex)
    key = vertex.record.deployment, vertex.role
    shared = plan.world.deployment_roles[key]
    below = attributes.merge(rules.template(catalogue, each.role), shared.record.user)
    path, kept = paths.user(each.role, each.fqdn), plan.kept.get(paths.user(each.role, each.fqdn))
    given.refuse(plan, each.role, user, below, kept.value if kept else {})
    version = None if kept is None else kept.version
    change: Change = Create(path, user) if version is None else Set(path, user, version)
    here = Check(paths.noderole(each.role, each.fqdn), vertex.version)
    changes = [here, permitted, Check(paths.deployment_role(*key), shared.version), change]
    plan.take(changes, "create" if version is None else "change", "attributes", each.name, user)


# -- committing --


def committed(plan: Planning) -> None:
    """Commit the noderoles that the files want committed, and propose those that they want PROPOSED.

    Raises Conflict if a noderole to propose is in TRANSITION.
    """
    plan.packing.close()
    found = [(each, plan.vertex(each)) for each in plan.wanted.noderoles() if each.state is not None]
    pairs = [(each, vertex) for each, vertex in found if vertex is not None]
    wanted = [v for each, v in pairs if each.state is Commitment.COMMITTED and v.record.state is State.PROPOSED]
    back = [v for each, v in pairs if each.state is Commitment.PROPOSED and v.record.state is not State.PROPOSED]
    for each, vertex in pairs:
        if vertex in back and vertex.record.state is State.TRANSITION:
            text = f"{vertex.name} is in TRANSITION; wait until it ends: nodepool-ocb noderole wait {vertex.name}"
            raise Conflict(each.place.fault(text))
    deploymentroles.refuse_noderoles(plan.world, wanted)
    unreadable.refuse_commit(plan.world, wanted)
    _move(plan, back, Event.PROPOSE)
    _move(plan, wanted, Event.COMMIT)


def _move(plan: Planning, vertices: list[Vertex], event: Event) -> None:
    for vertex in vertices:
        plan.step(event.lower(), "noderole", vertex.name)
    plan.moved += vertices
    for transaction in commands.apply_to(plan.world, vertices, event, plan.about.now, plan.about.by):
        plan.packing.whole(transaction)
