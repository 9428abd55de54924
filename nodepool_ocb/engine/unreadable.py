"""Refusals while a record cannot be read: garbage, or the schema of a later version.

Only the existence of such a record is known. It moves no noderole (noderole.placed), and is not overwritten. Work that it
might forbid does not begin: annealers leave its noderole, its children and its node alone. A command is refused if its
decision depends on the unreadable content. Pure; each of the refusals raises Conflict, naming the record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from nodepool_ocb.engine.world import ClusterView, NodeView, Vertex, World, ancestors, opened
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import NodeRole, State

ADVICE = "see: nodepool-ocb record show PATH; mend it, use the version of nodepool-ocb that wrote it, or: record delete"
SPOILED_ADVICE = "write a JSON object there (zkCli.sh -server HOST set PATH '{}'), or: nodepool-ocb record delete PATH"


def refuse(world: World, wanted: Iterable[str]) -> None:
    """Raises Conflict if one of these paths cannot be read."""
    for path in wanted if world.unreadable else ():
        if path in world.unreadable:
            raise Conflict(f"the record {path} cannot be read, and this depends on it; {ADVICE}")


def holding(world: World, vertex: Vertex, record: NodeRole) -> Iterator[str]:
    """The paths of the unreadable records that prevent a claim; ``record``: the noderole's record in that decision."""
    if not world.unreadable:
        return
    fqdn = vertex.node.name
    wanted = [paths.noderole(vertex.role, fqdn), paths.node(fqdn), paths.claim(fqdn)]
    if record.cancel_reason is None:
        wanted += [*map(paths.deployment, world.line(record.deployment)), paths.role(vertex.role)]
        wanted += [paths.gate(each.deployment, each.role) for each in vertex.above if isinstance(each, ClusterView)]
        wanted += [paths.noderole(*paths.split_noderole(name)) for name in vertex.unknown]
    there = [path for path in wanted if path in world.unreadable]
    yield from there
    yield from (path for path in _noderoles_of(world, fqdn) if path not in there)  # one of them may be at work
    if record.cancel_reason is None:
        yield from _of_attributes(world, vertex, there)


def _of_attributes(world: World, vertex: Vertex, named: Collection[str]) -> Iterator[str]:
    """Unreadable roles and deployment roles with attributes that its jig would see."""
    wanted = (paths.ROLES, paths.DEPLOYMENTS)
    if not any(path.startswith(wanted) for path in world.unreadable):
        return
    everyone = seen_by(vertex)
    if vertex.record.task_run is None:
        everyone |= {*vertex.node.noderoles.values()}
    seen = {paths.role(each.role) for each in everyone}
    seen |= {paths.deployment_role(each.record.deployment, each.role) for each in everyone}
    yield from sorted(path for path in seen if path in world.unreadable and path not in named)


def spoiled(world: World, vertex: Vertex) -> list[str]:
    """The paths of attributes that its jig would see, and that cannot be read as far as is known."""
    if not world.spoiled:
        return []
    return sorted(path for each in seen_by(vertex) for path in blobs(each) if path in world.spoiled)


def seen_by(vertex: Vertex) -> set[Vertex]:
    """The noderoles with attributes that its jig would see: itself, the ACTIVE ones on its node, and all its ancestors.

    For a task: only itself.
    """
    if vertex.record.task_run is not None:
        return {vertex}
    active = (each for each in vertex.node.noderoles.values() if each.record.state is State.ACTIVE)
    return {vertex, *active, *(each for row in ancestors(vertex) for each in row)}


def seen_by_all(vertices: Iterable[Vertex]) -> set[Vertex]:
    """All that ``seen_by`` gives for each of them; no noderole is looked at twice."""
    seen: set[Vertex] = set()
    climbing: list[Vertex] = []  # those with ancestors that are seen, too
    nodes: dict[str, NodeView] = {}
    for vertex in vertices:
        seen.add(vertex)
        if vertex.record.task_run is None:
            climbing.append(vertex)
            nodes[vertex.node.name] = vertex.node
    climbed = set(climbing)
    while climbing:
        above = opened(climbing.pop().above).keys() - climbed
        climbed |= above
        climbing += above
    active = (each for node in nodes.values() for each in node.noderoles.values() if each.record.state is State.ACTIVE)
    return seen.union(climbed, active)


def blobs(vertex: Vertex) -> tuple[str, ...]:
    """The paths of a noderole's attributes."""
    key = vertex.role, vertex.node.name
    return paths.wall(*key), paths.system(*key), paths.user(*key)


def node_hidden(world: World, fqdn: str) -> bool:
    """Whether the record of a node cannot be read."""
    return paths.node(fqdn) in world.unreadable


def hooks_wait(world: World, *wanted: str) -> bool:
    """Whether a hook waits: for one of these records, which it is run for or writes, or for a role that may have it."""
    return bool(world.unreadable) and (
        any(path in world.unreadable for path in wanted) or bool(_of_kind(world, "roles"))
    )


# -- commands --


def refuse_bind(world: World, view: NodeView, deployment: str) -> None:
    """A bind to a node: it rests on all roles, on the deployment records, and on every noderole.

    Each of these may be a parent, or below a cluster: the deployment of an unreadable noderole is not known.
    """
    if world.unreadable:
        refuse(world, [paths.node(view.name), *_of_kind(world, "roles"), *_noderoles(world)])
        refuse(world, _of_kind(world, "deployments", lambda names: len(names) == 1 or names[0] == deployment))


def refuse_new_node(world: World, fqdn: str) -> None:
    """Creation of a node: all roles together determine its first noderoles and its hooks."""
    if world.unreadable:
        refuse(world, [paths.node(fqdn), *_noderoles_of(world, fqdn), *_of_kind(world, "roles")])


def refuse_removal(world: World, views: Iterable[NodeView]) -> None:
    """Deletion of noderoles of these nodes: any unreadable record may be a child of one."""
    if world.unreadable:
        refuse(world, [path for view in views for path in (paths.node(view.name), paths.claim(view.name))])
        refuse(world, _noderoles(world))


def refuse_deletion(world: World, view: NodeView) -> None:
    """Deletion of a node: it rests on the hooks of all roles."""
    refuse_removal(world, [view])
    refuse(world, _of_kind(world, "roles"))


def refuse_end_of(world: World, deployment: str) -> None:
    """Deletion of a deployment, after its roles' hooks: any node, noderole or deployment may belong to it."""
    if world.unreadable:
        refuse(world, [paths.deployment(deployment), paths.rollouts(deployment)])
        refuse(world, (*_of_kind(world, "deployments"), *_of_kind(world, "nodes"), *_of_kind(world, "roles")))


def refuse_end_of_roles(world: World, roles: Collection[str]) -> None:
    """Deletion of roles: it rests on their noderoles, their deployment roles, and the roles that require them."""
    if world.unreadable:
        refuse(world, _of_kind(world, "roles"))
        refuse(world, _of_kind(world, "nodes", lambda names: len(names) == 3 and names[-1] in roles))
        refuse(world, _of_kind(world, "deployments", lambda names: len(names) == 3 and names[-1] in roles))


def refuse_import(world: World) -> None:
    """Import of roles: their requirements and provided roles are judged with all other roles."""
    refuse(world, _of_kind(world, "roles"))


def refuse_inventory(world: World) -> None:
    """The nodes of a new rollout: any unreadable node or noderole may be of its deployment."""
    refuse(world, (*_of_kind(world, "deployments"), *_of_kind(world, "nodes")))


def refuse_commit(world: World, vertices: Iterable[Vertex], nodes: Iterable[str] = ()) -> None:
    """Commit of these noderoles, and of all those of ``nodes``: it rests on their parents and deployments."""
    if not world.unreadable:
        return
    for fqdn in nodes:
        refuse(world, [paths.node(fqdn), *_noderoles_of(world, fqdn)])
    for vertex in vertices:
        above = [paths.noderole(*paths.split_noderole(name)) for name in vertex.unknown]
        refuse(
            world, [paths.noderole(vertex.role, vertex.node.name), paths.deployment(vertex.record.deployment), *above]
        )


def _noderoles_of(world: World, fqdn: str) -> list[str]:
    start = paths.noderoles(fqdn) + "/"
    return sorted(path for path in world.unreadable if path.startswith(start))


def _noderoles(world: World) -> list[str]:
    return _of_kind(world, "nodes", lambda names: len(names) == 3)


def _of_kind(world: World, section: str, meant: Callable[[list[str]], bool] = lambda _: True) -> list[str]:
    """The unreadable records below a section of the tree."""
    start = f"{paths.ROOT}/{section}/"
    return sorted(
        path for path in world.unreadable if path.startswith(start) and meant(path.removeprefix(start).split("/"))
    )
