"""Nodes that a launcher adds to the cluster, each with its roles committed, and nodes that it takes away. Pure.

Many nodes are created in one transaction, so the structure is written once for all of them. A node is created, bound and
committed at once: a node that exists is complete. Its record carries the identity of its launch, as a label. A node with another
identity belongs to a person or to another launch, and is left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import binding, commands, nodes, structure
from nodepool_ocb.engine.acting.annealers import active_jigs
from nodepool_ocb.engine.advancing import advance, copied
from nodepool_ocb.engine.binding import BindPlan
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import NodeView, Stored, World, node_of
from nodepool_ocb.errors import Conflict, OcbError
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.installation import MachineUse
from nodepool_ocb.model.records import Change, Check, Create, Node, Set

LAUNCH_LABEL: Final = "launch"  # the label of a node with the identity of its launch


class Enrolment(msgspec.Struct, frozen=True, kw_only=True):
    """A node to create. ``launch`` is the identity of its launch; a later launch of the same name has another.

    ``machine``: the node is a machine of the fleet, which the launch uses. It exists, and gets the roles alone.
    """

    fqdn: str
    launch: str
    node: Node
    roles: tuple[str, ...] = ()  # beside those that every new node gets
    machine: bool = False


class EnrolmentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction, empty if it creates no node."""

    changes: tuple[Change, ...] = ()
    created: tuple[str, ...] = ()
    there: tuple[str, ...] = ()  # nodes of these launches that exist already
    left: tuple[str, ...] = ()  # nodes without room in this transaction: plan them again after it
    refused: Mapping[str, str] = {}  # nodes that cannot be created → the reason


def enrol(
    world: World,
    wanted: Iterable[Enrolment],
    *,
    admin_domain: str | None,
    now: float,
    jigs: Collection[str] | None,
    by: str | None = None,
) -> EnrolmentPlan:
    """Create as many of these nodes as one transaction has room for. ``jigs`` are the active ones (None: skip this test)."""
    scratch: World | None = None
    changes: list[Change] = []
    created: list[str] = []
    there: list[str] = []
    left: list[str] = []
    refused: dict[str, str] = {}
    for each in wanted:
        if enrolled(world, each):
            there.append(each.fqdn)
        elif left:
            left.append(each.fqdn)
        else:
            scratch = scratch or _replayed(world, changes)
            try:
                own = (
                    _bound(scratch, each, now, jigs, by)
                    if each.machine
                    else _created(scratch, each, admin_domain, now, jigs, by)
                )
            except OcbError as fault:
                refused[each.fqdn] = str(fault)
                scratch = None  # it has parts of the plan that failed
                continue
            if created and not limits.fits(folded([*changes, *own])):
                left.append(each.fqdn)
            else:
                changes += own
                created.append(each.fqdn)
    whole = structure.raised(world, folded(changes)) if created else ()
    return EnrolmentPlan(
        changes=tuple(whole), created=tuple(created), there=tuple(there), left=tuple(left), refused=refused
    )


def enrolled(world: World, asked: Enrolment) -> bool:
    """Whether the node of this launch is there, with the roles."""
    view = world.nodes.get(asked.fqdn)
    if view is None or not asked.machine:
        return view is not None and launched_by(view, asked.launch)
    return used_by(world, asked.fqdn, asked.launch) is not None and view.noderoles.keys() >= {*asked.roles}


def used_by(world: World, fqdn: str, launch: str) -> Stored[MachineUse] | None:
    """The use of a machine by this launch; None if it is over, or another one has the machine."""
    stored = world.of(MachineUse).get(fqdn)
    return stored if stored is not None and stored.record.returned is None and stored.record.launch == launch else None


def launched_by(view: NodeView, launch: str) -> bool:
    """Whether a node exists and is of this launch."""
    return view.record is not None and view.record.labels.get(LAUNCH_LABEL) == launch


def leave(world: World, fqdn: str, now: float, by: str | None = None) -> list[Change]:
    """The changes before a node may be deleted: hooks of on_node_delete are asked for, and its run is cancelled.

    Empty if it may be deleted at once, or if the hooks or the run have not ended yet. Raises NotFound. Raises Conflict if it
    may not be deleted, for example because a committed noderole of another node depends on it.
    """
    view = node_of(world, fqdn)
    busy = view.busy if view.claim is not None else None
    if busy is None or view.record is None:
        return nodes.delete(world, fqdn)
    marked = [] if view.record.deleting else nodes.marked(view)
    if busy.record.cancel_reason is not None:
        return marked
    cancelled = commands.apply_to(world, [busy], Event.CANCEL, now, by, f"node {fqdn} goes", marked)
    return next(cancelled, marked)


def _replayed(world: World, changes: Iterable[Change]) -> World:
    made = copied(world)
    advance(made, changes)
    return made


def _created(
    scratch: World,
    each: Enrolment,
    admin_domain: str | None,
    now: float,
    jigs: Collection[str] | None,
    by: str | None,
) -> list[Change]:
    """The changes for one node, without that of the structure; the world is advanced by them."""
    node = replace(each.node, labels={**each.node.labels, LAUNCH_LABEL: each.launch})
    plan = nodes.create(
        scratch, each.fqdn, node, admin_domain=admin_domain, now=now, jigs=jigs, by=by, roles=each.roles
    )
    return _committed(scratch, each.fqdn, plan, now, by)


def _bound(scratch: World, each: Enrolment, now: float, jigs: Collection[str] | None, by: str | None) -> list[Change]:
    """The changes that bind the roles to a machine and commit them. Its use names the noderoles, which go with it."""
    used = used_by(scratch, each.fqdn, each.launch)
    if used is None:
        raise Conflict(f"machine {each.fqdn} is not used by this launch any more")
    view, deployment = node_of(scratch, each.fqdn), each.node.deployment
    plan = binding.plan_all(scratch, each.roles, view, now=now, by=by, deployment=deployment, jigs=jigs)
    changes = _committed(scratch, each.fqdn, plan, now, by)
    roles = (*used.record.roles, *(paths.split_noderole(name)[0] for name, _ in plan.noderoles))
    return [*changes, Set(paths.machine_use(each.fqdn), replace(used.record, roles=roles), used.version)]


def _committed(scratch: World, fqdn: str, plan: BindPlan, now: float, by: str | None) -> list[Change]:
    """The changes of a bind, with the commit of the new noderoles; the world is advanced by them."""
    changes = [change for change in plan.changes if change.path != paths.STRUCTURE]
    advance(scratch, changes)
    bound = [scratch.nodes[fqdn].noderoles[paths.split_noderole(name)[0]] for name, _ in plan.noderoles]
    for part in commands.apply_to(scratch, bound, Event.COMMIT, now, by):
        advance(scratch, part)
        changes += part
    return changes


def bound_and_committed(
    world: World, fqdn: str, roles: Collection[str], now: float, by: str | None = None
) -> list[Change]:
    """One transaction that binds roles to an existing node and commits the new noderoles."""
    scratch = copied(world)
    plan = binding.plan_all(scratch, roles, node_of(scratch, fqdn), now=now, by=by, jigs=active_jigs(world))
    return structure.raised(world, folded(_committed(scratch, fqdn, plan, now, by)))


def folded(changes: Sequence[Change]) -> list[Change]:
    """The same with one change for each record that they create: the record as they leave it."""
    newest = {change.path: change.data for change in changes if isinstance(change, Create | Set)}
    created = {change.path for change in changes if isinstance(change, Create)}
    folded: list[Change] = []
    checked: set[Check] = set()
    for change in changes:
        if isinstance(change, Create):
            folded.append(replace(change, data=newest[change.path]))
        elif isinstance(change, Check):
            if change not in checked and change.path not in created:
                folded.append(change)
            checked.add(change)
        elif not (isinstance(change, Set) and change.path in created):
            folded.append(change)
    return folded
