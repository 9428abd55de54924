"""The documents that servers have published, compared with those that they must publish. Pure.

A publication is current if its digest is that of the document wanted now, and it was made in the directory that the server has
now. The decision needs the records alone, so it is the same after a lost event, a takeover, or a directory that was lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from nodepool_ocb.engine.noderole import satisfied
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.boot import Bootenv, Publication, Publisher
from nodepool_ocb.model.records import Node
from nodepool_ocb.provisioning import boot, bootenvs, secureboot
from nodepool_ocb.provisioning.boot import BootDocument, BootSecrets
from nodepool_ocb.provisioning.servers import serverfiles

OWN: Final = "@server"  # the name of the document of a server itself: no node can have it

#: By role and node: the records from which a digest was made, and the digest.
Digests: TypeAlias = dict[tuple[str, str], tuple[Node, Bootenv | None, BootSecrets, str]]


def servers(world: World, role: str = boot.DHCP) -> Iterator[Vertex]:
    """The noderoles that publish now: ACTIVE, or run again in place, on a node that is alive and available."""
    for view in world.nodes.values():
        vertex = view.noderoles.get(role)
        if vertex is None or view.record is None or not (view.record.alive and view.record.available):
            continue
        if satisfied(vertex.record):
            yield vertex


def addresses(world: World) -> tuple[str, ...]:
    """The addresses of the HTTP servers of all servers that live; each has the images of its providers."""
    publishers = world.of(Publisher)
    found = {publishers[each.name].record.address for each in servers(world) if each.name in publishers}
    return tuple(sorted(found - {""}))


def unpublished(world: World, fqdn: str) -> tuple[str, ...]:
    """The nodes of servers that live and have not published the boot document that the node must have now."""
    digest = boot.wanted(world, fqdn).digest
    return tuple(sorted(each.node.name for each in servers(world) if not current(world, each.name, fqdn, digest)))


def unreached(world: World, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of these nodes that an annealer does not reach, while no other one has agreed to their death."""
    nodes = ((name, world.nodes[name].record) for name in names if name in world.nodes)
    return tuple(name for name, node in nodes if node is not None and node.suspicion is not None)


def outdated(world: World, fqdn: str, since: float) -> tuple[str, ...]:
    """The nodes of servers, also of dead ones, with files of this node from before ``since`` that are not the present ones.

    A server that was away serves them when it is back, until it has published again.
    """
    digest, marked = boot.wanted(world, fqdn).digest, f"{boot.DHCP}@"
    found = (
        noderole.partition("@")[2]
        for (noderole, name), stored in world.of(Publication).items()
        if name == fqdn and noderole.startswith(marked) and stored.record.at < since
        if not current(world, noderole, fqdn, digest)
    )
    return tuple(sorted(found))


def wanted(world: World, noderole: str, name: str) -> BootDocument:
    """The document that a noderole must publish for a node, or, under the name ``OWN``, for its server."""
    role, _, server = noderole.partition("@")
    if name != OWN:
        return boot.wanted(world, name, role)
    if role == boot.DNS:
        return BootDocument({"conf.d/dns.conf": serverfiles.names(world)})
    files = {"conf.d/dhcp.conf": serverfiles.dhcp(world, server), "http/boot/default.ipxe": serverfiles.unknown(world)}
    secure = serverfiles.unknown_secure(world)
    return BootDocument(files | ({f"{secureboot.FOLDER}/default.cfg": secure} if secure is not None else {}))


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


def due(world: World, noderole: str, memory: Digests | None = None) -> Iterator[str]:
    """The names of documents that this noderole must publish or remove, its server's own first; ``memory`` keeps digests."""
    role = noderole.partition("@")[0]
    names = world.nodes.keys() | {fqdn for _, fqdn in world.of(Publication)}
    if not current(world, noderole, OWN, wanted(world, noderole, OWN).digest):
        yield OWN
    known = bootenvs.known(world)
    for fqdn in sorted(names - {OWN}):
        view = world.nodes.get(fqdn)
        node = view.record if view is not None else None
        digest = "" if node is None else _digest(world, role, fqdn, node, known.get(node.bootenv), memory)
        if not current(world, noderole, fqdn, digest):
            yield fqdn


def _digest(world: World, role: str, fqdn: str, node: Node, bootenv: Bootenv | None, memory: Digests | None) -> str:
    secrets = boot.secrets_of(world, fqdn)
    kept = memory.get((role, fqdn)) if memory is not None else None
    if kept is not None and kept[0] is node and kept[1] is bootenv and kept[2] == secrets:
        return kept[3]
    found = boot.wanted(world, fqdn, role).digest
    if memory is not None:
        memory[role, fqdn] = (node, bootenv, secrets, found)
    return found
