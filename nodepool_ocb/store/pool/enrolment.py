"""Nodes of /ocb for launched nodes: created and deleted, many in one transaction.

Call these functions on the thread of the world's cache, after its refresh. Each writes a few transactions and never waits for
another process. A node that could not be written yet stands among ``left`` or ``waiting``: call again in the next turn, which
the watch of ``/ocb`` wakes. ``/ocb/structure`` is written once for each transaction, not once for each node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import enrolling, nodes, structure
from nodepool_ocb.engine.advancing import copied
from nodepool_ocb.engine.enrolling import Enrolment, EnrolmentPlan
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid, NotFound, Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import removal_as_judged

CHANGED: Final = "records of it changed meanwhile"
LEAVING: Final = "its run, or hooks of on_node_delete, have not ended yet"
NO_ROOM: Final = "other nodes are deleted first"


class Dismissals(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one call of ``dismiss``."""

    gone: tuple[str, ...] = ()
    waiting: Mapping[str, str] = {}  # node → the cause of the wait, or the reason why it may not be deleted


def enrol(
    session: Session,
    world: World,
    wanted: Collection[Enrolment],
    *,
    admin_domain: str | None,
    jigs: Collection[str] | None,
    by: str | None = None,
) -> EnrolmentPlan:
    """Create as many of these nodes as one transaction has room for, each with its noderoles committed.

    The result has nodes ``created`` or ``there``; call again for those ``left``. Raises the exceptions of ``Session.commit``,
    but not Stale.
    """
    plan = enrolling.enrol(world, wanted, admin_domain=admin_domain, now=session.now(), jigs=jigs, by=by)
    if plan.changes:
        try:
            session.commit(plan.changes)
        except Stale:
            return replace(plan, changes=(), created=(), left=(*plan.created, *plan.left))
    return plan


def dismiss(session: Session, world: World, launches: Mapping[str, str], by: str | None = None) -> Dismissals:
    """Delete these nodes, each only if it is of this launch. ``launches``: node → the identity of its launch.

    A node with a run is marked, and its run is cancelled. A node with hooks of on_node_delete is marked. Annealers end these,
    and a later call finds the node gone, or deletes it. Raises the exceptions of ``Session.commit``, but not Stale.
    """
    waiting = dict.fromkeys(_unseen(session, world, launches), CHANGED)
    ready: dict[str, list[Change]] = {}
    for fqdn, launch in launches.items():
        view = world.nodes.get(fqdn)
        if view is None or not enrolling.launched_by(view, launch):
            continue
        try:
            left = enrolling.leave(world, fqdn, session.now(), by)
            if left:
                session.commit(left)
            if left or view.claim is not None or (view.record is not None and "on_node_delete" in view.record.hooks):
                waiting[fqdn] = LEAVING
            else:
                ready[fqdn] = _deletions(session, world, fqdn)
        except (Conflict, Invalid, NotFound) as refused:  # Stale is a Conflict
            waiting[fqdn] = CHANGED if isinstance(refused, Stale) else str(refused)
    waiting |= _deleted(session, world, ready)
    return Dismissals(gone=tuple(fqdn for fqdn in launches if fqdn not in waiting), waiting=waiting)


def _unseen(session: Session, world: World, launches: Mapping[str, str]) -> list[str]:
    """The nodes that exist, and that the world does not show yet: a launcher before this one created them just now."""
    absent = [fqdn for fqdn in launches if fqdn not in world.nodes]
    if absent:
        session.sync()
    found = session.get_many([paths.node(fqdn) for fqdn in absent])
    return [fqdn for fqdn, znode in zip(absent, found, strict=True) if znode is not None]


def _deletions(session: Session, world: World, fqdn: str) -> list[Change]:
    """The deletions of a node and of all that goes with it, leaves first. Raises Stale, and Conflict if it may not go."""
    elsewhere = [vertex for vertex in reversed(nodes.going(world.nodes[fqdn])) if vertex.node.name != fqdn]
    places = [*(paths.noderole(vertex.role, vertex.node.name) for vertex in elsewhere), paths.node(fqdn)]
    deletions = [each for place in places for each in removal_as_judged(session, world, place)]
    nodes.refuse_part(world, fqdn, deletions)
    return deletions


def _deleted(session: Session, world: World, ready: Mapping[str, list[Change]]) -> dict[str, str]:
    """Delete as many of these nodes as one transaction has room for; the others wait. A very large node goes alone."""
    together: list[Change] = []
    chosen: list[str] = []
    for fqdn, deletions in ready.items():
        if not chosen and not limits.fits(structure.raised(world, deletions)):
            return _deleted_alone(session, world, fqdn, deletions, ready)
        if limits.fits(structure.raised(world, [*together, *deletions])):
            together += deletions
            chosen.append(fqdn)
    waiting = dict.fromkeys(ready, NO_ROOM)
    try:
        session.commit(structure.raised(world, together))
    except Stale:
        return waiting | dict.fromkeys(chosen, CHANGED)
    return {fqdn: reason for fqdn, reason in waiting.items() if fqdn not in chosen}


def _deleted_alone(
    session: Session, world: World, fqdn: str, deletions: list[Change], ready: Collection[str]
) -> dict[str, str]:
    """Delete a node that does not fit into one transaction."""
    waiting = dict.fromkeys((each for each in ready if each != fqdn), NO_ROOM)
    try:
        for part in nodes.taking_away(copied(world), fqdn, deletions):
            session.commit(part)
    except Stale:
        waiting[fqdn] = CHANGED
    return waiting
