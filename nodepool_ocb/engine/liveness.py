"""The effect on noderoles when a machine is found dead or alive; and the suspicion of one annealer that does not reach it.

A machine is dead by agreement of annealers. If an annealer does not reach it and another one can look, the first one writes a
suspicion. The other one deletes the suspicion, or writes the death. So a fault of one annealer's host kills no machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.engine import addressing, deployments, installing, maintenance, marks, structure, unreadable
from nodepool_ocb.engine.claim import accounted, writes
from nodepool_ocb.engine.hooks.node import noticed
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.aliveness import Marker, Suspicion
from nodepool_ocb.model.records import Change, Create, Node, NodeRole, Run, Set, State

#: Where a death leaves no noderole, but for the destructive ones of which it changes nothing.
UNMOVED: Final = frozenset({State.TRANSITION, State.ACTIVE, State.ERROR})
UNCHANGED: Final = frozenset({(State.ACTIVE, "done"), (State.ERROR, "started")})


def suspected(view: NodeView, by: str, reason: str, now: float) -> list[Change]:
    """An annealer does not reach the node, and asks the others to look; the newest suspicion replaces an older one."""
    suspicion = Suspicion(by=by, reason=reason, since=now)
    return [Set(paths.node(view.name), replace(_present(view), suspicion=suspicion), view.version)]


def refuted(view: NodeView) -> list[Change]:
    """The node was reached: delete the suspicion."""
    return [Set(paths.node(view.name), replace(_present(view), suspicion=None), view.version)]


def died(
    view: NodeView,
    now: float,
    reason: str,
    by: str | None = None,
    ended: tuple[Vertex, Run] | None = None,
    together: Sequence[Change] = (),
) -> list[Change]:
    """The node is not alive, and its committed noderoles get the event NODE_DIED, with the effects below: one transaction.

    If the node is held, or was not alive or not available before, its noderoles are left as they are. If the transaction has no
    room for all noderoles of the node, the node is ``dying`` until ``went_on`` has moved the others. Noderoles below on other
    nodes without room there are settled by the annealers that watch them.

    A noderole with a failed installation is left in ERROR, with its reason. An installation under way goes on: the machine may be
    away. A noderole with a run that must be ended stays in TRANSITION. When the machine is back, an annealer takes it over and
    ends the run. A noderole with an unreadable record is not
    written. A task that has ended is not moved.

    The run that was going on there gets its record; ``ended`` is that record, if its annealer knows it. ``together`` is part of
    the transaction. The change of the node is the first one. A mark that holds is kept, and ``reason`` is not written then.
    """
    node = _present(view)
    found = (
        {} if marks.holds(node, now) else {"reason": reason, "mark": None, "since": now if node.alive else node.since}
    )
    after = replace(node, alive=False, suspicion=None, **found)
    dead = noticed(view.world, node, after)
    if not (node.alive and node.available) or maintenance.held(node, now):  # its noderoles are left as they are
        return [Set(paths.node(view.name), dead, view.version), *together]
    return _moved(view, dead, _committed(view), now, reason, by, ended, together)


def went_on(view: NodeView, now: float, by: str | None = None) -> list[Change]:
    """The next transaction of a death that was larger than one, or that happened while the node was held.

    It depends on the records alone, so every annealer gives the same. Empty if nothing is left to move.
    """
    node = _present(view)
    if not unfinished(node, now):
        return []
    reason, after = marks.why(node) or "it died", replace(node, hold=node.hold if maintenance.held(node, now) else None)
    return _moved(view, after, filter(_unmoved, view.noderoles.values()), now, reason, by)


def unfinished(node: Node, now: float) -> bool:
    """Whether noderoles of a node that is not alive are still to be set back."""
    over = node.hold is not None and not maintenance.held(node, now)
    return node.dying or (over and node.available and not (node.alive or node.virtual))


def _committed(view: NodeView) -> list[Vertex]:
    return [
        v
        for v in view.noderoles.values()
        if v.record.state is not State.PROPOSED and not (v.unreadable or _of_task_over(v.record) or _installed(v))
    ]


def _unmoved(vertex: Vertex) -> bool:
    record = vertex.record
    unchanged = (record.state, record.once) in UNCHANGED or _of_task_over(record) or _installed(vertex)
    return record.state in UNMOVED and not unchanged and not vertex.unreadable


def _installed(vertex: Vertex) -> bool:
    """Whether its installation is under way, or failed: the death of the machine neither ends nor repeats that."""
    return installing.of_vertex(vertex) is not None or installing.failed(vertex)


def _of_task_over(record: NodeRole) -> bool:
    """Whether it is a task that has ended: the death of its machine does not start it again."""
    return record.task_run is not None and record.state in (State.ACTIVE, State.ERROR)


def _moved(
    view: NodeView,
    node: Node,
    vertices: Iterable[Vertex],
    now: float,
    reason: str,
    by: str | None,
    ended: tuple[Vertex, Run] | None = None,
    together: Sequence[Change] = (),
) -> list[Change]:
    """The node is ``dying`` after this if it has no room for all of these noderoles."""
    depth = view.world.depth
    own = sorted((v for v in vertices if v.record.cancel_reason is None), key=lambda v: (depth(v), v.name))
    moved = apply(dict.fromkeys(own, Event.NODE_DIED), now, by=by, reason=reason)
    first = [ended[0]] if ended is not None else []
    room = limits.Room([Set(paths.node(view.name), replace(node, dying=True), view.version), *together])
    left = False
    for vertex in dict.fromkeys([*first, *own, *moved]):
        if vertex not in moved:
            continue
        if not room.take([*writes(vertex, moved[vertex]), *_runs(vertex, view, now, reason, ended)]):
            left = vertex in own and any(map(_unmoved, own[own.index(vertex) :]))
            break
    return [Set(paths.node(view.name), replace(node, dying=left), view.version), *room.changes[1:]]


def _runs(
    vertex: Vertex, view: NodeView, now: float, reason: str, ended: tuple[Vertex, Run] | None
) -> Iterator[Change]:
    """The record of the run that the death ended, if there was one."""
    if ended is not None and ended[0] is vertex and vertex.record.run is not None:
        yield Create(paths.run(vertex.role, view.name, vertex.record.run), ended[1])
    elif vertex.node is view:
        yield from accounted(vertex, now, "died", f"{view.name}: {reason}")


def to_set_back(view: NodeView) -> list[Vertex]:
    """The noderoles of a node that an installation of its machine sets back, parents first."""
    depth = view.world.depth
    found = (each for each in _committed(view) if each.record.cancel_reason is None and _unmoved(each))
    return sorted(found, key=lambda vertex: (depth(vertex), vertex.name))


def installed(view: NodeView, host_key: str, addresses: tuple[str, ...], now: float) -> Node:
    """The node when its machine is alive on a new disk: the key of that disk is pinned in the place of all former ones.

    The wish of the command is fulfilled, so no later installation has it.
    """
    node = _present(view)
    fields: dict[str, Any] = {"alive": True, "reason": None, "mark": None, "suspicion": None, "since": now}
    fields["install"] = None
    return noticed(view.world, node, replace(node, host_keys=(host_key,), addresses=addresses, **fields))


def retired(view: NodeView, now: float, *, erased: bool) -> Node:
    """The node when its machine is out of service; ``erased``: the disk with its host key has lost its data."""
    node = _present(view)
    fields: dict[str, Any] = {"alive": False, "reason": "it was decommissioned", "mark": None, "suspicion": None}
    keys = () if erased else node.host_keys
    return noticed(
        view.world, node, replace(node, decommissioned=now, install=None, host_keys=keys, since=now, **fields)
    )


def replaced(view: NodeView, now: float, bootenv: str) -> Node:
    """The node when an installer began on its machine, and ended without success: the former system is down, or gone.

    ``went_on`` sets its noderoles back, unless the node is held or not available. A node that was not alive keeps its reason.
    """
    node = _present(view)
    after = replace(node, bootenv=bootenv)
    if node.alive:
        dying = node.available and not maintenance.held(node, now)
        fields: dict[str, Any] = {"alive": False, "dying": dying, "suspicion": None, "since": now}
        after = replace(after, reason="an installer took the place of its system, and did not finish", **fields)
    return noticed(view.world, node, after)


def rescued(view: NodeView, now: float) -> Node:
    """The node when its machine is back from a rescue, with the system and the key that it had."""
    node = _present(view)
    since = node.since if node.alive else now
    return noticed(view.world, node, replace(node, alive=True, reason=None, mark=None, suspicion=None, since=since))


def revived(view: NodeView, now: float, host_keys: Iterable[str] = ()) -> list[Change]:
    """The machine answers; its noderoles are as its death left them, so annealers go on by themselves.

    Raises Conflict while some of them are still to be set back.
    """
    node = _not_dying(view)
    pinned = node.host_keys or tuple(host_keys)
    alive = replace(node, alive=True, reason=None, mark=None, suspicion=None, since=now, host_keys=pinned)
    return [Set(paths.node(view.name), noticed(view.world, node, alive), view.version)]


def pinned(view: NodeView, host_key: str) -> list[Change]:
    """The machine is alive and showed its key, and the record has none: store that key."""
    node = _present(view)
    return [Set(paths.node(view.name), noticed(view.world, node, replace(node, host_keys=(host_key,))), view.version)]


def _not_dying(view: NodeView) -> Node:
    node = _present(view)
    if node.dying:
        raise Conflict(f"an annealer is still setting back the noderoles of {view.name}; try again in a moment")
    return node


def changed(
    world: World, view: NodeView, now: float, by: str | None = None, *, marker: Marker = Marker.PERSON, **fields: Any
) -> list[Change]:
    """The node with other fields; empty if it has them already. Roles with a hook on_node_change get it to run.

    ``alive=False`` marks it, for ``hold_seconds`` or ``until`` a time, with a ``reason``; ``alive=True`` lifts the mark. If a
    hook may not mark the node, its mark is ignored. A node may become available, or its hold may end, while it is not alive.
    Then its noderoles are set back as by a death, unless that was done before.

    Raises Conflict in these cases:

    - the node would move to a deployment that does not exist or is being deleted, or out of one that is being deleted;
    - it would move to another deployment while a run of tasks that is not over has noderoles on it;
    - it would be alive while it is still ``dying``, or while a mark holds that this marker may not lift;
    - it would be alive while it is decommissioned;
    - it would have another node's address.

    While the machine is installed, a word of the machine or of a hook about its aliveness is ignored.

    Raises Invalid for an address that is none, or a virtual node that would not be alive.
    """
    node = _present(view)
    if fields.get("addresses", node.addresses) != node.addresses:
        addressing.check(world, view.name, fields["addresses"])
    if fields.get("deployment", node.deployment) not in (node.deployment, *world.deployments):
        raise Conflict(
            f"deployment {fields['deployment']} does not exist, so node {view.name} cannot move there;"
            f" first: nodepool-ocb deployment create {fields['deployment']}"
        )
    if fields.get("deployment", node.deployment) != node.deployment:
        deployments.refuse_driven(world, view.noderoles.values())
        ends = [fields["deployment"]]
        if node.deployment in world.deployments and view in deployments.of_tasks(world, node.deployment):
            ends.append(node.deployment)  # its deletion takes this node away
        for each in ends:
            deployments.refuse_deleting(each, world.deployments[each].record)
    word = {name: fields.pop(name) for name in marks.WORD if name in fields}
    if "alive" in word and not (marker is not Marker.PERSON and installing.under_way(view) is not None):
        fields |= marks.said(view.name, node, marker, by, now, **word)
    fields = {name: value for name, value in fields.items() if getattr(node, name) != value}
    if not fields:
        return []
    if fields.get("alive"):
        _not_dying(view)
        if node.decommissioned is not None:
            raise Conflict(f"node {view.name} was decommissioned; first: nodepool-ocb node recommission {view.name}")
    if fields.keys() & {"alive", "available"}:
        fields["since"] = now
    if fields.keys() & {"alive", "available", "hold", "addresses", "user"}:
        fields["suspicion"] = None  # it was about the node before this change
    after = noticed(world, node, replace(node, **fields))
    return structure.raised(world, _with_noderoles(view, after, now, by))


def _with_noderoles(view: NodeView, after: Node, now: float, by: str | None) -> list[Change]:
    """The node with its new fields. If it is not alive, and is available and not held, its noderoles are set back.

    If it was in that state before, its noderoles are left as they are. If it died while it was not available, or held, its
    noderoles are set back when that ends. ``went_on`` does so for a hold that is over by its time.
    """
    node = _present(view)
    kept_away = not node.available or (node.hold is not None and after.hold is None)
    if (
        after.alive
        or after.virtual
        or not after.available
        or maintenance.held(after, now)
        or not (node.alive or kept_away)
    ):
        return [Set(paths.node(view.name), after, view.version)]
    vertices = _committed(view) if node.alive else filter(_unmoved, view.noderoles.values())
    return _moved(view, after, vertices, now, marks.why(after) or "it died", by)


def _present(view: NodeView) -> Node:
    unreadable.refuse(view.world, [paths.node(view.name)])
    if view.record is None:
        raise Conflict(f"node {view.name} is gone; see: nodepool-ocb node list")
    return view.record
