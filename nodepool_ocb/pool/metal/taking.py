"""A machine is taken, looked at and given back: the plan of each question of the driver metal. Pure.

- To take a machine is one transaction: the record of its use, and a new installation. So it is installed once for each use.
- It runs when the installation of its use has ended: it is alive, with the host key that was pinned, and with the image of the
  use. A machine that runs its former system never counts as running.
- To give it back ends its run, and takes away the noderoles that the pool bound. The machine is switched off where its power
  can be switched, and is free when it is off. Its disks are erased by the installation of the next use.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from nodepool_ocb.engine import (
    addressing,
    binding,
    claim,
    commands,
    installing,
    liveness,
    powering,
    reinstalling,
    structure,
    unreadable,
)
from nodepool_ocb.engine.enrolling import bound_and_committed
from nodepool_ocb.engine.noderole import Event, after, settle
from nodepool_ocb.engine.world import NodeView, Stored, Vertex, World
from nodepool_ocb.errors import Conflict, OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import InstallStep, MachineUse
from nodepool_ocb.model.power import PowerAction
from nodepool_ocb.model.records import Change, Check, Create, InstallRequest, NodeRole, Set, State
from nodepool_ocb.pool.metal import choosing
from nodepool_ocb.pool.metal.plans import MetalOffer, MetalPlan, MetalSight, MetalStamp, MetalUntaken

BY = "launcher"
NAMED = 3  # obstacles in one sentence


def take(world: World, offer: MetalOffer, stamp: MetalStamp, now: float) -> MetalPlan:
    """Take a free machine for a launch; the answer is a MetalSight, or MetalUntaken. A second call takes no second machine."""
    if (there := found(world, stamp, now)) is not None:
        return MetalPlan(answer=there)
    views, obstacles = choosing.free(world, offer, now)
    if not views and not obstacles:
        reason = (
            f"no machine of the fleet fits `{' '.join(offer.selectors)}`, with allow_install, a MAC and power settings"
        )
        return MetalPlan(answer=MetalUntaken(reason=reason, ever=False))
    for view in views:
        try:
            generation, changes = _installed_anew(world, view, offer.request, now)
        except OcbError as refused:
            obstacles[view.name] = f"{view.name}: {refused}"
            continue
        use = _use(offer, stamp, generation, max(now, installing.tokens_from(view)))
        before = installing.use(view)
        path = paths.machine_use(view.name)
        written = Create(path, use) if before is None else Set(path, use, before.version)
        building = MetalSight(fqdn=view.name, stamp=stamp, state="building", words="it is to be installed")
        return MetalPlan(answer=building, changes=(written, *changes))
    some = "; ".join(why for _, why in sorted(obstacles.items())[:NAMED])
    more = f"; and {len(obstacles) - NAMED} more" if len(obstacles) > NAMED else ""
    return MetalPlan(answer=MetalUntaken(reason=f"no machine for label {offer.label} is free: {some}{more}"))


def _use(offer: MetalOffer, stamp: MetalStamp, generation: int, now: float) -> MachineUse:
    return MachineUse(
        cluster=stamp.cluster,
        provider=stamp.provider,
        pool=stamp.pool,
        pool_node=stamp.node,
        key=stamp.key,
        label=offer.label,
        image=offer.request.image or "",
        since=now,
        generation=generation,
    )


def _installed_anew(
    world: World, view: NodeView, request: InstallRequest, now: float
) -> tuple[int, tuple[Change, ...]]:
    """The changes that begin an installation of a free machine, and its generation."""
    vertex, fqdn = choosing.installer(view), view.name
    if vertex is not None:
        role, changes = vertex.role, [structure.unchanged(world), *reinstalling.requested(view, request, now, BY)]
    else:
        role = _role(world)
        changes = [*bound_and_committed(world, fqdn, (role,), now, BY), *_wished(view, request, now)]
    written = {change.path: change.data for change in changes if isinstance(change, Create | Set)}
    record = written[paths.noderole(role, fqdn)]
    assert isinstance(record, NodeRole)
    checked = Check(paths.node(fqdn), view.version)
    rest = [change for change in changes if change != checked]
    return record.generation, tuple(rest if paths.node(fqdn) in written else [checked, *rest])


def _wished(view: NodeView, request: InstallRequest, now: float) -> list[Change]:
    return liveness.changed(view.world, view, now, BY, install=request)


def _role(world: World) -> str:
    """The role that installs machines; raises Conflict if there is another number of them than one."""
    roles = sorted(name for name, stored in world.roles.items() if stored.record.jig == installing.JIG)
    if len(roles) != 1:
        raise Conflict(f"there must be one role that installs, and there are {', '.join(roles) or 'none'}; bind one")
    return roles[0]


# -- looks --


def found(world: World, stamp: MetalStamp, now: float) -> MetalSight | None:
    """The machine that this launch has; None where it has none."""
    for fqdn, used in choosing.uses(world):
        if stamped(used.record) == stamp:
            return sight(world, fqdn, now)
    return None


def listed(world: World, now: float) -> tuple[MetalSight, ...]:
    """All machines that are in use."""
    seen = (sight(world, fqdn, now) for fqdn, _ in choosing.uses(world))
    return tuple(each for each in seen if each is not None)


def sight(world: World, fqdn: str, now: float) -> MetalSight | None:
    """A machine that is in use, as it is now; None where it is in no use, or its node is gone."""
    view, used = world.nodes.get(fqdn), world.of(MachineUse).get(fqdn)
    if view is None or view.record is None or used is None or used.record.returned is not None:
        return None
    state, words = _state(view, used.record, now)
    seen = MetalSight(fqdn=fqdn, stamp=stamped(used.record), state=state, words=words)
    if state != "running":
        return seen
    host, port = addressing.parse(view.record.addresses[0])
    return replace(seen, user=view.record.user, address=host, port=port, host_keys=view.record.host_keys)


def stamped(use: MachineUse) -> MetalStamp:
    """The stamp of the launch that has the machine."""
    return MetalStamp(cluster=use.cluster, provider=use.provider, pool=use.pool, node=use.pool_node, key=use.key)


def _state(view: NodeView, use: MachineUse, now: float) -> tuple[str, str | None]:
    """The state of a machine in use, and its words."""
    vertex, node = choosing.installer(view), view.record
    assert node is not None
    if vertex is None:
        return "failed", f"the noderole that installs {view.name} is gone"
    record, last = vertex.record, installing.stored(view)
    if record.generation < use.generation:  # the world shows the record of before
        return "building", "it is to be installed"
    if record.state is State.ERROR:
        return "failed", record.reason
    own = last is not None and last.record.noderole == vertex.name and last.record.generation >= use.generation
    if record.state is not State.ACTIVE or last is None or not own:
        under_way = installing.of_vertex(vertex)
        words = (
            installing.sentence(under_way.record, now) if under_way is not None else f"{vertex.name} is {record.state}"
        )
        return "building", words
    if last.record.step is not InstallStep.ALIVE or last.record.image != use.image:
        return "failed", f"{view.name} was installed with image {last.record.image}, and not for this use"
    if not node.alive or not node.host_keys or not node.addresses:
        return "building", f"it is installed, and not alive: {node.reason or 'it was not reached yet'}"
    return "running", None


def unfit(world: World, fqdn: str, host_keys: Collection[str]) -> str | None:
    """Why an idle machine must not be handed out; None if it may."""
    view = world.nodes.get(fqdn)
    node = view.record if view is not None else None
    if node is None:
        return f"node {fqdn} is gone"
    if not node.alive:
        return f"{fqdn} is not alive: {node.reason or 'it was not reached'}"
    if host_keys and not {*host_keys} & {*node.host_keys}:
        return f"{fqdn} has another host key than its node; it was installed again"
    return None


# -- the return --


def give_back(world: World, fqdn: str, stamp: MetalStamp, now: float, request: str) -> MetalPlan:
    """End the use of a machine; the answer is None when it has ended, and a reason if another launch has the machine.

    ``request``: an id of chance for the request to switch it off.
    """
    view, used = world.nodes.get(fqdn), world.of(MachineUse).get(fqdn)
    if view is None or view.record is None or used is None or used.record.returned is not None:
        return MetalPlan()
    if stamped(used.record) != stamp:
        return MetalPlan(answer=f"machine {fqdn} carries another stamp")
    vertex = choosing.installer(view)
    if (busy := view.busy) is not None:
        return _cancelled(world, view, used, busy, now, installs=busy is vertex)
    try:
        going = binding.removable_together(
            [view.noderoles[each] for each in used.record.roles if each in view.noderoles]
        )
    except Conflict as refused:
        return MetalPlan(waits=str(refused))
    if (switched := _unwritable(view) or _being_switched(view)) is not None:
        return MetalPlan(waits=switched)
    returned = max(now, installing.tokens_from(view) + 1.0)  # later than its token, also by a clock that is behind
    over = Set(paths.machine_use(fqdn), replace(used.record, returned=returned), used.version)
    # The record of the node gets another version: so no report of the former user that was judged before is written after this.
    # No report is written while it cannot be read, and the machine is switched off all the same.
    unread = paths.node(fqdn) in world.unreadable
    touched = [] if unread else [Set(paths.node(fqdn), view.record, view.version)]
    changes: list[Change] = [over, *touched, *_withdrawn(vertex, now), *_switched_off(view, request, now)]
    return MetalPlan(changes=tuple(changes), unbound=tuple(each.name for each in going))


def _cancelled(
    world: World, view: NodeView, used: Stored[MachineUse], busy: Vertex, now: float, *, installs: bool
) -> MetalPlan:
    """End the run on the machine first."""
    waits = f"the run of {busy.name} is being ended"
    if busy.record.cancel_reason is not None:
        return MetalPlan(
            waits=waits if world.annealers else f"{waits}; no annealer is running, and one must be started"
        )
    why = f"node {used.record.pool_node} of {used.record.provider}/{used.record.pool} is being deleted"
    noted = replace(used.record, cancelled=used.record.cancelled or installs)
    first: list[Change] = [Set(paths.machine_use(view.name), noted, used.version)] if installs else []
    changes = next(commands.apply_to(world, [busy], Event.CANCEL, now, BY, why, first), first)
    return MetalPlan(changes=tuple(changes), waits=waits)


def _withdrawn(vertex: Vertex | None, now: float) -> list[Change]:
    """An installation that has not begun does not begin."""
    if vertex is None or vertex.record.state not in (State.TODO, State.BLOCKED):
        return []
    moved = settle({vertex: after(vertex.record, Event.PROPOSE, now, BY)}, now)
    return claim.settling(moved, (vertex,))


def _unwritable(view: NodeView) -> str | None:
    """The record that ends the use and cannot be read; it would be refused as stale without an end."""
    wanted = (paths.machine_use(view.name), paths.power(view.name))
    found = next((path for path in wanted if path in view.world.unreadable), None)
    return f"the record {found} cannot be read; {unreadable.ADVICE}" if found is not None else None


def _being_switched(view: NodeView) -> str | None:
    """The request that must end before the machine is switched off; else the system of its former user would go on."""
    stored = powering.powers(view.world).get(view.name)
    if stored is None or (request := stored.record.request) is None or not installing.switchable(view.world, view.name):
        return None
    return f"power {request.action} of {view.name} is under way" if request.action is not PowerAction.OFF else None


def _switched_off(view: NodeView, request: str, now: float) -> list[Change]:
    """The former user's system ends, and with it the access of the user. Annealers repeat a request that fails."""
    stored = powering.powers(view.world).get(view.name)
    if stored is None or not installing.switchable(view.world, view.name):
        return []
    wanted = replace(stored.record, off_since=now)
    if wanted.request is None:
        wanted = powering.asked(wanted, powering.request(request, PowerAction.OFF, BY, now))
    return [Set(paths.power(view.name), wanted, stored.version)]
