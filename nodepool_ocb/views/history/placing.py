"""The deployments of the nodes and noderoles that a transaction changes. Pure.

An entry notes them, because a name can belong to another deployment later: by a move, or to another object of this name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Change, Create, Json, Node, NodeRole, Set

DEFAULT: Final = Node().deployment  # of a record in JSON that has none


class NotedDeployment(NamedTuple):
    """The deployment of a record since a change, and the other one that it had before."""

    deployment: str
    former: str | None = None


def owner(kind: str, name: str) -> str | None:
    """The path of the node or the noderole that has the deployment, by the kind and the name in an entry.

    >>> owner("node", "n1.x"), owner("attributes", "ntp@n1.x (user)"), owner("deployment", "lab")
    ('/ocb/nodes/n1.x', '/ocb/nodes/n1.x/noderoles/ntp', None)
    """
    if kind == "node":
        return paths.node(name)
    role, at, fqdn = name.partition(" (")[0].partition("@")
    return paths.noderole(role, fqdn) if at and "/" not in name and kind in ("noderole", "attributes") else None


def of_changes(changes: Iterable[Change], before: Mapping[tuple[str, int], Json]) -> dict[str, NotedDeployment | None]:
    """By path, for the nodes and noderoles that the changes create or set; None where the record before is not known.

    >>> of_changes([Set("/ocb/nodes/n1", Node(deployment="web"), 3)], {("/ocb/nodes/n1", 3): {"deployment": "lab"}})
    {'/ocb/nodes/n1': NotedDeployment(deployment='web', former='lab')}
    """
    found: dict[str, NotedDeployment | None] = {}
    for each in changes:
        if isinstance(each, Create | Set) and isinstance(each.data, Node | NodeRole):
            now = each.data.deployment
            was = {"deployment": now} if isinstance(each, Create) else before.get((each.path, each.version))
            former = str(was.get("deployment", DEFAULT)) if isinstance(was, Mapping) else None
            found[each.path] = None if former is None else NotedDeployment(now, former if former != now else None)
    return found


def deployments(entry: Entry) -> frozenset[str] | None:
    """The deployments of all that an entry changed; None if some of it belongs to none, or is not noted.

    >>> from nodepool_ocb.model.journal import Effect
    >>> moved = Effect(change="change", kind="node", name="n1", deployment="web", former="lab")
    >>> sorted(deployments(Entry(at=1.0, login="ann", host="h", verb="node move", changes=(moved,))) or ())
    ['lab', 'web']
    """
    if not entry.changes or entry.more or entry.left_out:
        return None
    found: set[str] = set()
    for each in entry.changes:
        place = _of_name(each.kind, each.name) or each.deployment
        if place is None:
            return None
        found |= {place} if each.former is None else {place, each.former}
    return frozenset(found)


def _of_name(kind: str, name: str) -> str | None:
    """The deployment in the name of a record that belongs to one for as long as it exists."""
    match kind:
        case "deployment":
            return name
        case "deployment role":
            return name.removesuffix(" (user)").partition(" in ")[2] or None
        case "rollout" | "run of tasks":
            return name.partition("/")[0]
    return None
