"""Deleting a whole subtree: read first, so that each deletion carries a version, and leaves come before branches."""

from __future__ import annotations

from collections.abc import Iterable

from nodepool_ocb.engine import holdings
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Delete, Fence, Gate, Node
from nodepool_ocb.store import networks
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.kinds import WORLD_KINDS
from nodepool_ocb.store.world.paths import parse


def removal(session: Session, path: str) -> list[Delete]:
    """The deletions of ``path`` and all below it, in an order that works; empty if nothing is there.

    Raises Unavailable or Denied.
    """
    return [Delete(znode.path, znode.version) for znode in subtree(session, path)]


def discard(session: Session, places: Iterable[str]) -> None:
    """Delete znodes that are written once and have nothing below them, in as many transactions as that takes.

    A znode that was written again, as by hand, goes at its version of now. Raises the exceptions of commit, and Stale where one
    is written or deleted at the same time. No entry of a journal tells of it.
    """
    for deletions in limits.parts(limits.singly(Delete(path, 0) for path in places)):
        try:
            Session.commit(session, deletions)
        except Stale:
            found = session.get_many([each.path for each in deletions])
            Session.commit(session, [Delete(znode.path, znode.version) for znode in found if znode is not None])


def removal_as_judged(session: Session, world: World, path: str) -> list[Change]:
    """As ``removal``, but records of a world are deleted at the version that this world has; attributes and runs at
    their present version. Before the record of a node, its MACs are freed, and its addresses go in quarantine.

    Raises Stale if a record was created or changed since the world was read, and Invalid if one cannot be read.
    """
    at = parse(path)
    view = world.nodes.get(at.name) if at is not None and at.kind is Node else None
    if view is None or view.record is None:
        return [*judged(world, subtree(session, path))]
    return leaving(world, view.name, node_subtree(session, view.name, view.record))


def node_subtree(session: Session, fqdn: str, node: Node) -> list[Znode]:
    """The znodes of a node: those below its record, those of its MACs and addresses, and its record as the last one."""
    znodes = subtree(session, paths.node(fqdn))
    return [*znodes[:-1], *networks.held(session, node), *znodes[-1:]]


def leaving(world: World, fqdn: str, znodes: Iterable[Znode]) -> list[Change]:
    """The changes that delete a node of these znodes, as ``removal_as_judged`` gives them."""
    changes: list[Change] = []
    for znode in znodes:
        if not znode.path.startswith(holdings.FOLDERS):
            changes += judged(world, [znode])
        elif (change := networks.released(fqdn, znode)) is not None:
            changes.append(change)
    return changes


def judged(world: World, znodes: Iterable[Znode]) -> list[Delete]:
    """The deletions of these znodes, as ``removal_as_judged`` gives them."""
    return [Delete(znode.path, _judged(world, znode)) for znode in znodes]


def subtree(session: Session, path: str) -> list[Znode]:
    """The znodes at ``path`` and below it, leaves first; raises Unavailable or Denied."""
    found: list[str] = []
    level = [path]
    while level:
        found += level
        below = session.children_many(level)
        level = [f"{parent}/{name}" for parent, names in zip(level, below, strict=True) for name in names or ()]
    znodes = session.get_many(found)
    return [znode for znode in reversed(znodes) if znode is not None]


def _judged(world: World, znode: Znode) -> int:
    """The version that goes, which is the one that was judged."""
    at = parse(znode.path)
    if at is None or at.kind is Gate:  # any member may have raised it
        return znode.version
    shown = WORLD_KINDS[at.kind].version(world, at)
    if shown != znode.version:
        if at.kind is not Fence:
            codec.decode(at.kind, znode)
        raise Stale(f"{znode.path} was changed meanwhile; read it again and decide anew", znode.path)
    return shown
