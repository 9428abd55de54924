"""What it means for noderoles that a machine is found dead, or alive again; and that one annealer does not reach it.

A machine is dead by agreement. An annealer that does not reach it writes a suspicion, where there is another that can look;
that one takes the suspicion back, or writes the death. So a fault of one annealer's host kills no machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.engine import addressing, structure, unreadable
from nodepool_ocb.engine.claim import accounted, writes
from nodepool_ocb.engine.nodehooks import noticed
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Create, Node, Run, Set, State, Suspicion

#: Where a death leaves no noderole, but for the destructive ones of which it changes nothing.
UNMOVED: Final = frozenset({State.TRANSITION, State.ACTIVE, State.ERROR})
UNCHANGED: Final = frozenset({(State.ACTIVE, "done"), (State.ERROR, "started")})


def suspected(view: NodeView, by: str, reason: str, now: float) -> list[Change]:
    """An annealer does not reach the node, and asks the others to look; the newest such word counts."""
    suspicion = Suspicion(by=by, reason=reason, since=now)
    return [Set(paths.node(view.name), replace(_present(view), suspicion=suspicion), view.version)]


def refuted(view: NodeView) -> list[Change]:
    """It was reached: nothing is left of the suspicion."""
    return [Set(paths.node(view.name), replace(_present(view), suspicion=None), view.version)]


def died(
    view: NodeView,
    now: float,
    reason: str,
    by: str | None = None,
    ended: tuple[Vertex, Run] | None = None,
    together: Sequence[Change] = (),
) -> list[Change]:
    """The node is not alive, and every committed noderole on it is TODO or BLOCKED, with all below: one transaction.

    What that transaction has no room for is left: a node with more noderoles is ``dying`` until ``went_on`` has moved them
    all, and what is below on other nodes is settled by the annealers that watch those. One whose run is to be ended stays
    in TRANSITION: when the machine is back, somebody takes it over and ends it. One whose record cannot be read is left as
    it is, as nobody may write it.

    The run that was going on there is accounted for; ``ended``: how, where its annealer knows. ``together`` is written with
    it. The change of the node is the first.
    """
    node = _present(view)
    dead = noticed(view.world, node, replace(node, alive=False, reason=reason, suspicion=None, since=now))
    if not (node.alive and node.available):  # while it is not available, its noderoles are left as they are
        return [Set(paths.node(view.name), dead, view.version), *together]
    committed = [v for v in view.noderoles.values() if v.record.state is not State.PROPOSED and not v.unreadable]
    return _moved(view, dead, committed, now, reason, by, ended, together)


def went_on(view: NodeView, now: float, by: str | None = None) -> list[Change]:
    """The next transaction of a death that was larger than one: the same for any annealer, at any time after that."""
    node = _present(view)
    reason = node.reason or "it died"
    return _moved(view, node, filter(_unmoved, view.noderoles.values()), now, reason, by) if node.dying else []


def _unmoved(vertex: Vertex) -> bool:
    record = vertex.record
    return record.state in UNMOVED and (record.state, record.once) not in UNCHANGED and not vertex.unreadable


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


def revived(view: NodeView, now: float, host_keys: Iterable[str] = ()) -> list[Change]:
    """The machine answers; its noderoles are as its death left them, so annealers go on by themselves.

    Raises Conflict while some of them are still to be set back.
    """
    node = _not_dying(view)
    pinned = node.host_keys or tuple(host_keys)
    alive = replace(node, alive=True, reason=None, suspicion=None, since=now, host_keys=pinned)
    return [Set(paths.node(view.name), noticed(view.world, node, alive), view.version)]


def pinned(view: NodeView, host_key: str) -> list[Change]:
    """The machine is alive and showed its key, where the record has none: from now on that key counts."""
    node = _present(view)
    return [Set(paths.node(view.name), noticed(view.world, node, replace(node, host_keys=(host_key,))), view.version)]


def _not_dying(view: NodeView) -> Node:
    node = _present(view)
    if node.dying:
        raise Conflict(f"an annealer is still setting back the noderoles of {view.name}; try again in a moment")
    return node


def changed(world: World, view: NodeView, now: float, by: str | None = None, **fields: Any) -> list[Change]:
    """The node with other fields; ``alive=False`` is a death. Nothing where it has these values already.

    Raises Conflict where it would move to a deployment that does not exist, be alive while it is still ``dying``, or have
    another node's address; Invalid for an address that is none.
    """
    before = _not_dying(view) if fields.get("alive") else _present(view)
    fields = {name: value for name, value in fields.items() if getattr(before, name) != value}
    if not fields:
        return []
    if "addresses" in fields:
        addressing.check(world, view.name, fields["addresses"])
    if fields.get("deployment", before.deployment) not in (before.deployment, *world.deployments):
        raise Conflict(f"deployment {fields['deployment']} does not exist; node {view.name} cannot move there")
    node, rest = before, []
    if fields.get("alive") is False:
        first, *rest = died(view, now, fields.pop("reason", None) or f"marked so by {by or 'a person'}", by)
        assert isinstance(first, Set), "died() names the node first"
        assert isinstance(first.data, Node), "died() names the node first"
        node = first.data
    if "alive" in fields or "available" in fields:
        fields.setdefault("since", now)
    if fields.keys() & {"alive", "available", "addresses", "user"}:
        fields.setdefault("suspicion", None)  # it was about what the node was before
    after = noticed(world, before, replace(node, **fields))
    return structure.raised(world, [Set(paths.node(view.name), after, view.version), *rest])


def _present(view: NodeView) -> Node:
    unreadable.refuse(view.world, [paths.node(view.name)])
    if view.record is None:
        raise Conflict(f"node {view.name} is gone")
    return view.record
