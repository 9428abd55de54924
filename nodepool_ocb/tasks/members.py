"""The nodes of a task list: those of a deployment, as members, in listing order; and those of them that a person names.

A node's roles are its tags, and its uid is its label ``uid``, else its FQDN. Listing order is the order in which a person names
nodes, else that of the uids, which count by value if they are numbers. Admin nodes are members, too: those of the deployment,
or of the nearest one above it that has any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nodepool_ocb.documents.counting import some
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model.records import Node
from nodepool_ocb.tasks.compiling.election import natural
from nodepool_ocb.tasks.plan import Member

UID: Final = "uid"  # the label


def members(world: World, deployment: str) -> list[Member]:
    """All nodes of a deployment with its admin nodes; raises Conflict if two have one uid."""
    nodes = {view.name: view.record for view in world.nodes.values() if view.record and not view.record.virtual}
    own = {name: node for name, node in nodes.items() if node.deployment == deployment}
    found = [_member(name, node) for name, node in {**own, **_admins(world, deployment, nodes)}.items()]
    first: dict[str, str] = {}
    for each in found:
        if first.setdefault(each.uid, each.name) != each.name:
            raise Conflict(
                f"{first[each.uid]} and {each.name} both have uid {each.uid};"
                f" give one of them another: nodepool-ocb node set {each.name} labels.uid=UID"
            )
    return sorted(found, key=lambda each: natural(each.uid))


def _member(name: str, node: Node) -> Member:
    return Member(name=name, uid=node.labels.get(UID, name), roles=tuple(dict.fromkeys(node.tags)), admin=node.admin)


def _admins(world: World, deployment: str, nodes: Mapping[str, Node]) -> dict[str, Node]:
    for each in _upwards(world, deployment):
        found = {name: node for name, node in nodes.items() if node.admin and node.deployment == each}
        if found:
            return found
    return {}


def _upwards(world: World, deployment: str | None) -> Iterator[str]:
    seen = set[str]()  # parents in a circle are possible in spoiled records
    while deployment is not None and deployment not in seen:
        seen.add(deployment)
        yield deployment
        stored = world.deployments.get(deployment)
        deployment = stored.record.parent if stored else None


def chosen(everyone: Sequence[Member], names: Iterable[str]) -> list[Member]:
    """The members named by uid, FQDN or its first part, each once, in this order, and then the admin nodes.

    All members if ``names`` is empty. Raises NotFound for an unknown name, and Conflict for a first part that several have.
    """
    short: dict[str, list[str]] = {}
    for each in everyone:
        short.setdefault(each.name.partition(".")[0], []).append(each.name)
    known = {each.name.partition(".")[0]: each for each in everyone}
    known |= {each.name: each for each in everyone} | {each.uid: each for each in everyone}
    wanted = dict.fromkeys(names)
    for name in wanted:
        if name not in known:
            near = did_you_mean(name, known)
            raise NotFound(f"node {name} is not in this deployment{near or '; name nodes by uid or FQDN'}")
        if name not in (known[name].name, known[name].uid) and len(short[name]) > 1:
            raise Conflict(f"{name} may be {some(short[name], 5)}; name nodes by uid or FQDN")
    if not wanted:
        return list(everyone)
    admins = (each for each in everyone if each.admin)
    return list({each.name: each for each in (*(known[name] for name in wanted), *admins)}.values())


def warnings(world: World, found: Iterable[Member]) -> Iterator[str]:
    """A sentence for each member with tasks that would wait, because it is not alive or not available."""
    for each in found:
        node = world.nodes[each.name].record
        if node is not None and not (node.alive and node.available):
            what = "alive" if node.available else "available"
            yield f"{each.name} is not {what}; its tasks wait until it is"
