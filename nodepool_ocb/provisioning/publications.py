"""The documents that servers have published, compared with those that they must publish. Pure.

A publication is current if its digest is that of the document wanted now, and it was made in the directory that the server has
now. The decision needs the records alone, so it is the same after a lost event, a takeover, or a directory that was lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from nodepool_ocb.engine.noderole import satisfied
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.boot import Publication, Publisher
from nodepool_ocb.provisioning import boot


def servers(world: World, role: str = boot.DHCP) -> Iterator[Vertex]:
    """The noderoles that publish now: ACTIVE, or run again in place, on a node that is alive and available."""
    for view in world.nodes.values():
        vertex = view.noderoles.get(role)
        if vertex is None or view.record is None or not (view.record.alive and view.record.available):
            continue
        if satisfied(vertex.record):
            yield vertex


def unpublished(world: World, fqdn: str) -> tuple[str, ...]:
    """The nodes of servers that live and have not published the boot document that the node must have now."""
    digest = boot.wanted(world, fqdn).digest
    return tuple(sorted(each.node.name for each in servers(world) if not current(world, each.name, fqdn, digest)))


def current(world: World, noderole: str, fqdn: str, digest: str) -> bool:
    """Whether a noderole has published the document with this digest; no publication is needed for an empty one."""
    found = world.of(Publication).get((noderole, fqdn))
    if found is None:
        return not digest
    return found.record.digest == digest and found.record.directory == directory(world, noderole)


def directory(world: World, noderole: str) -> str:
    """The id of the directory that a publishing noderole used last; empty before its first run."""
    found = world.of(Publisher).get(noderole)
    return found.record.directory if found is not None else ""


def due(world: World, noderole: str) -> Iterator[str]:
    """The nodes with documents that this noderole must publish or remove, by name."""
    role = noderole.partition("@")[0]
    names = world.nodes.keys() | {fqdn for publisher, fqdn in world.of(Publication) if publisher == noderole}
    for fqdn in sorted(names):
        if not current(world, noderole, fqdn, boot.wanted(world, fqdn, role).digest):
            yield fqdn
