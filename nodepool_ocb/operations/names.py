"""Records by name. A name that does not exist is answered with the nearest one that does. Pure.

Each function raises NotFound, or Conflict for a record that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.world import NodeView, Stored, Vertex, World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Deployment, Node, Role


def unknown(kind: str, name: str, known: Iterable[str]) -> NotFound:
    """The error for a name that does not exist.

    >>> str(unknown("noderole", "ntp@n1.example.com", ["motd@n1.example.com", "ntp-client@n1.example.com"]))
    'noderole ntp@n1.example.com does not exist; did you mean `ntp-client@n1.example.com`?'
    """
    known = list(known)
    if set(name) & set("*?[") and kind in ("node", "noderole"):
        return NotFound(f"{kind} {name} does not exist; a pattern of names is a selector: -l '{name}'")
    role, _, node = name.partition("@")
    short = f"{role}-", f"@{node}"  # a part of a role's name, on its node
    full = [each for each in known if each.startswith(f"{name}.")]  # a host without its domain
    full = full or [each for each in known if node and each.startswith(short[0]) and each.endswith(short[1])]
    near = (
        f"; did you mean {' or '.join(f'`{each}`' for each in full)}?"
        if 0 < len(full) < 4
        else did_you_mean(name, known)
    )
    return NotFound(f"{kind} {name} does not exist{near or f'; see: nodepool-ocb {kind.split()[0]} list'}")


def near(word: str, words: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: the word that was meant, or all of them.

    >>> near("dry-run", ["dry_run", "reason"]), near("x", ["dry_run", "reason"])
    ('; did you mean `dry_run`?', '; it may have: dry_run, reason')
    """
    words = list(words)
    return did_you_mean(word, words) or f"; it may have: {', '.join(words)}"


def role_of(world: World, name: str) -> Stored[Role]:
    unreadable.refuse(world, [paths.role(name)])
    if name not in world.roles:
        raise unknown("role", name, world.roles)
    return world.roles[name]


def deployment_of(world: World, name: str) -> Stored[Deployment]:
    unreadable.refuse(world, [paths.deployment(name)])
    if name not in world.deployments:
        raise unknown("deployment", name, world.deployments)
    return world.deployments[name]


def bound_in(world: World, name: str) -> list[Vertex]:
    """The noderoles of a deployment."""
    deployment_of(world, name)
    return [vertex for vertex in world.vertices() if vertex.record.deployment == name]


def node_of(world: World, fqdn: str) -> NodeView:
    unreadable.refuse(world, [paths.node(fqdn)])
    view = world.nodes.get(fqdn)
    if view is None or view.record is None:
        raise unknown("node", fqdn, (name for name, each in world.nodes.items() if each.record))
    return view


def record_of(view: NodeView) -> Node:
    """The record of a node that ``node_of`` gave."""
    assert view.record is not None, "node_of gives only nodes that exist"
    return view.record


def noderole_of(world: World, name: str) -> Vertex:
    """Raises NotFound also for a name that is not ``ROLE@FQDN``."""
    try:
        key = paths.split_noderole(name)
    except ValueError as wrong:
        raise NotFound(str(wrong)) from None
    unreadable.refuse(world, [paths.noderole(*key)])
    vertex = world.vertex(name)
    if vertex is None:
        raise unknown("noderole", name, (each.name for each in world.vertices()))
    return vertex


def catalogue(world: World) -> dict[str, Role]:
    """Every role by its name."""
    return {name: stored.record for name, stored in world.roles.items()}
