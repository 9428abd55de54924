"""Objects that are not in the files and go, if a person asks for it: in the deployments that the files have, and nowhere else.

- Nothing of deployment ``system`` goes, nothing of task lists, and no deployment.
- Of a node that the files have, noderoles go where the files say which it has. The roles that every new node gets stay, unless
  the files are ``whole``; and so does each parent of a noderole that stays.
- Nothing goes with something else that the files have, or that is elsewhere: that is refused.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from nodepool_ocb.engine import binding, deployments, nodes, structure
from nodepool_ocb.engine.world import NodeView, Vertex, ancestors
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change
from nodepool_ocb.site.steps import Planning

Removal = Callable[[str], Sequence[Change]]  # the deletions of a path and all below it, as the world shows it

OF_NEW_NODES: Final = frozenset({"bootstrap", "discovery"})


def prune(plan: Planning, removal: Removal) -> None:
    """Delete the noderoles, then the nodes, that the files do not have; raises Conflict where one may not go."""
    scope = plan.wanted.deployments.keys() - {deployments.SYSTEM}
    gone: set[str] = set()

    def going(path: str) -> list[Change]:
        """Each znode once: a node goes without the noderoles that went before it."""
        found = [change for change in removal(path) if change.path not in gone]
        gone.update(change.path for change in found)
        return found

    goes = list(_nodes(plan, scope))
    noderoles = list(_noderoles(plan, scope))
    allowed = {vertex.name for vertex in noderoles} | {v.name for view in goes for v in view.noderoles.values()}
    _unbind(plan, noderoles, allowed, going)
    for view in nodes.in_order(goes):
        _refuse_more(allowed, nodes.going(view), f"node {view.name}")
        _delete(plan, view, going)


def places(plan: Planning) -> list[str]:
    """The paths for which ``prune`` may call ``removal``; none if it refuses."""
    scope = plan.wanted.deployments.keys() - {deployments.SYSTEM}
    try:
        goes = list(_nodes(plan, scope))
        vertices = [each for vertex in _noderoles(plan, scope) for each in binding.removable(vertex)]
        vertices += [vertex for view in goes for vertex in nodes.going(view)]
    except Conflict:
        return []
    found = [paths.noderole(each.role, each.node.name) for each in vertices] + [paths.node(view.name) for view in goes]
    return list(dict.fromkeys(found))


def _nodes(plan: Planning, scope: set[str]) -> Iterator[NodeView]:
    of_tasks = {view.name for name in scope for view in deployments.of_tasks(plan.world, name)}
    for fqdn, view in sorted(plan.world.nodes.items()):
        node = view.record
        if node is None or fqdn in plan.wanted.nodes or node.deployment not in scope or node.deleting:
            continue
        if fqdn in of_tasks:
            continue
        for vertex in view.noderoles.values():
            if vertex.record.deployment not in scope or vertex.record.task_run is not None:
                raise Conflict(
                    f"node {fqdn} is in no file, and {vertex.name} of deployment {vertex.record.deployment} is on it, which"
                    " no file here has; write the node down, or take that away first"
                )
        yield view


def _noderoles(plan: Planning, scope: set[str]) -> Iterator[Vertex]:
    """The noderoles to delete, of nodes with a list of noderoles in the files. A noderole stays if the files name it,
    if every new node gets its role, or if one that stays depends on it.
    """
    said = {each.name for each in plan.wanted.noderoles()}
    listed = [fqdn for fqdn, node in sorted(plan.wanted.nodes.items()) if node.noderoles is not None]
    views = [view for fqdn in listed if (view := plan.world.nodes.get(fqdn))]
    here = [vertex for view in views for _, vertex in sorted(view.noderoles.items())]
    staying = {vertex for name in said if (vertex := plan.world.vertex(name))} | {v for v in here if _of_all(plan, v)}
    staying |= {above for vertex in list(staying) for row in ancestors(vertex) for above in row}
    for vertex in here:
        if vertex.record.deployment in scope and vertex.record.task_run is None and vertex not in staying:
            yield vertex


def _of_all(plan: Planning, vertex: Vertex) -> bool:
    """Whether every new node gets its role, and the files do not say all that a node has."""
    known = vertex.role in plan.world.roles and not plan.wanted.whole
    return known and not OF_NEW_NODES.isdisjoint(plan.world.role_of(vertex).flags)


def _refuse_more(allowed: set[str], going: Iterable[Vertex], what: str) -> None:
    for vertex in going:
        if vertex.name not in allowed:
            raise Conflict(f"{what} is in no file, and {vertex.name} depends on it and stays; unbind that first")


def _unbind(plan: Planning, vertices: Sequence[Vertex], allowed: set[str], removal: Removal) -> None:
    going: dict[str, None] = {}
    for vertex in vertices:
        below = binding.removable(vertex)
        _refuse_more(allowed, below, vertex.name)
        going.update((each.name, None) for each in below)
    order = sorted(going, key=lambda name: -plan.world.depth(_there(plan, name)))
    groups = (removal(paths.noderole(*paths.split_noderole(name))) for name in order)
    for transaction in structure.in_parts(plan.world, list(groups)):
        plan.packing.whole(transaction)
    for name in order:
        plan.step("delete", "noderole", name)


def _there(plan: Planning, name: str) -> Vertex:
    vertex = plan.world.vertex(name)
    assert vertex is not None, "a deleted record existed"
    return vertex


def _delete(plan: Planning, view: NodeView, removal: Removal) -> None:
    """At once, or by an annealer when its hooks have run."""
    asked = nodes.delete(plan.world, view.name)
    plan.step("delete", "node", view.name)
    for vertex in sorted(view.noderoles.values(), key=lambda each: each.name):
        plan.step("delete", "noderole", vertex.name)
    if asked:
        plan.packing.take(asked)
        return
    leaves_first = reversed(nodes.going(view))
    places = [*(paths.noderole(v.role, v.node.name) for v in leaves_first), paths.node(view.name)]
    deletions = [each for place in places for each in removal(place)]
    for transaction in nodes.taking_away(plan.world, view.name, deletions):
        plan.packing.whole(transaction)
