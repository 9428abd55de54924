"""The machines of the fleet that a label may have, and why one of them cannot be taken now. Pure.

A machine of a pool is a node that may be erased (``allow_install``), with a MAC and a power record, which the selectors of the
label select. It is free if no pool uses it, no person holds it, and it has no other noderoles than those that every machine has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from nodepool_ocb.engine import installing, maintenance, powering
from nodepool_ocb.engine.selection import SelectionFacts, nodes, parse
from nodepool_ocb.engine.world import NodeView, Stored, Vertex, World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import InstallStep, MachineUse
from nodepool_ocb.model.records import Node, State
from nodepool_ocb.pool.metal.plans import MetalCount, MetalOffer

EVERY_MACHINE = frozenset({"discovery", "bootstrap"})  # flags of roles that a new node gets by itself


def fitting(world: World, selectors: Iterable[str], now: float) -> dict[str, NodeView]:
    """The machines that fit all selectors, by name. A value that no node has fits none."""
    found: dict[str, NodeView] | None = None
    for text in selectors:
        with suppress(NotFound):
            chosen = {view.name: view for view in nodes(world, parse(text), SelectionFacts(now, lambda _: ()))}
            found = chosen if found is None else {name: found[name] for name in found.keys() & chosen.keys()}
            continue
        return {}
    return {name: view for name, view in (found or {}).items() if belongs(view)}


def belongs(view: NodeView) -> bool:
    """Whether a node is a machine that pools may have at all."""
    node = view.record
    if node is None or node.virtual or node.admin or node.deleting or node.decommissioned is not None:
        return False
    return node.allow_install and bool(node.macs) and view.name in powering.powers(view.world)


def obstacle(view: NodeView, now: float, keeps: Collection[str] = ()) -> str | None:
    """Why a machine of a pool cannot be taken now; None if it is free.

    ``keeps``: roles of people that may stay on it. They must be ACTIVE before the first use, and never in ERROR.
    """
    name, node, used = view.name, view.record, installing.use(view)
    if node is None or paths.node(name) in view.world.unreadable or paths.machine_use(name) in view.world.unreadable:
        return f"a record of {name} cannot be read; see: nodepool-ocb status"
    if used is not None and used.record.returned is None:
        return f"{name} is node {used.record.pool_node} of {used.record.provider}/{used.record.pool}"
    return _of_people(view, node, now) or _of_noderoles(view, used, keeps) or _of_power(view, node, now)


def _of_people(view: NodeView, node: Node, now: float) -> str | None:
    if maintenance.holds(node.hold, now):
        return f"{view.name} is held {maintenance.sentence(node.hold)}"
    return None if node.available else f"{view.name} is not available"


def _of_noderoles(view: NodeView, used: Stored[MachineUse] | None, keeps: Collection[str]) -> str | None:
    """The other noderoles on it, or the state of the one that installs it."""
    if foreign := [role for role in unmanaged(view) if role not in keeps]:
        return f"{view.name} has role {foreign[0]}, which no pool bound; unbind it first"
    for kept in (view.noderoles[role] for role in sorted({*keeps} & view.noderoles.keys())):
        state = kept.record.state
        if state is State.ERROR or (used is None and state is not State.ACTIVE):
            return f"{view.name} is not used before {kept.name} is ACTIVE, and it is {state}"
    if view.claim is not None:
        return f"{view.name} is busy: an annealer runs {view.claim.noderole}"
    vertex = installer(view)
    if vertex is None:
        return None
    if out := failure(vertex, used):
        return f"{view.name} is out: {out}; mend it, then: nodepool-ocb noderole retry {vertex.name}"
    state = vertex.record.state
    if state is State.PROPOSED and (used is None or vertex.record.once is not None):
        return f"{vertex.name} is PROPOSED; commit it, or unbind it"
    if state in (State.TODO, State.BLOCKED, State.TRANSITION):
        return f"{view.name} is busy: {vertex.name} is {state}"
    return None


def _of_power(view: NodeView, node: Node, now: float) -> str | None:
    if (waits := powering.off_sentence(view, now)) is not None:
        return f"{view.name} is not free: {waits}; see: nodepool-ocb power show {view.name}"
    if node.alive or installing.switchable(view.world, view.name):
        return None
    return f"{view.name} is not alive, and its power cannot be switched: {node.reason or 'it was never reached'}"


def installer(view: NodeView) -> Vertex | None:
    """The noderole that installs the machine; None without one."""
    return next((each for _, each in sorted(view.noderoles.items()) if installing.installs(each)), None)


def unmanaged(view: NodeView) -> list[str]:
    """The roles on a machine beside those that every new node gets, the one that installs it, and those that these need."""
    keep: set[str] = set()
    waiting = [each for each in view.noderoles.values() if installing.installs(each) or _of_every(each)]
    while waiting:
        each = waiting.pop()
        if each.role not in keep:
            keep.add(each.role)
            waiting += [parent for parent in each.parents if parent.node is view]
    return sorted(view.noderoles.keys() - keep)


def failure(vertex: Vertex, used: Stored[MachineUse] | None) -> str | None:
    """Why the machine is out of its pool: its newest installation failed. None if it is not out.

    A failure before the machine was touched says nothing about it, and neither does the end of an unfinished use.
    """
    stored = installing.stored(vertex.node)
    if stored is None or not installing.failed(vertex) or stored.record.step is InstallStep.CHECKED:
        return None
    return None if used is not None and used.record.cancelled else stored.record.reason


def _of_every(vertex: Vertex) -> bool:
    stored = vertex.node.world.roles.get(vertex.role)
    return stored is not None and not EVERY_MACHINE.isdisjoint(stored.record.flags)


def free(world: World, offer: MetalOffer, now: float) -> tuple[list[NodeView], dict[str, str]]:
    """The machines that the label may take now, the best first, and the obstacles of the others by name.

    A machine that few other labels could have goes first, then the one that was returned first.
    """
    members = fitting(world, offer.selectors, now)
    obstacles = {name: why for name, view in members.items() if (why := obstacle(view, now, offer.keeps)) is not None}
    wanted = [fitting(world, rival, now).keys() for rival in offer.rivals]

    def rank(view: NodeView) -> tuple[int, float, str]:
        used = installing.use(view)
        returned = used.record.returned if used is not None else None
        return sum(view.name in names for names in wanted), returned or 0.0, view.name

    return sorted((view for name, view in members.items() if name not in obstacles), key=rank), obstacles


def counted(world: World, offers: Iterable[MetalOffer], provider: str, now: float) -> MetalCount:
    """The numbers of machines by label; a label may have several offers, in several pools."""
    fits: dict[str, set[str]] = {"": set()}
    taken: dict[str, set[str]] = {"": set()}
    for offer in offers:
        for name, view in fitting(world, offer.selectors, now).items():
            fits.setdefault(offer.label, set()).add(name)
            if obstacle(view, now, offer.keeps) is not None:
                taken.setdefault(offer.label, set()).add(name)
        fits.setdefault(offer.label, set())
    fits[""], taken[""] = set().union(*fits.values()), set().union(*taken.values())
    return MetalCount(
        fitting={label: len(names) for label, names in fits.items()},
        others={label: sum(not _ours(world, name, provider, label) for name in taken.get(label, ())) for label in fits},
    )


def _ours(world: World, fqdn: str, provider: str, label: str) -> bool:
    """Whether a launched node of the provider counts the machine already, for this label or for all together."""
    used = world.of(MachineUse).get(fqdn)
    if used is None or used.record.returned is not None or used.record.provider != provider:
        return False
    return label in ("", used.record.label)


def uses(world: World) -> Iterator[tuple[str, Stored[MachineUse]]]:
    """The uses that are under way, by the name of the machine."""
    return ((fqdn, each) for fqdn, each in sorted(world.of(MachineUse).items()) if each.record.returned is None)
