"""What it means for noderoles that a machine is found dead, or alive again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from nodepool_ocb import structure, unreadable
from nodepool_ocb.claim import accounted, settling
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import Change, Node, Set, State
from nodepool_ocb.noderole import Event, apply
from nodepool_ocb.store import paths
from nodepool_ocb.world import NodeView, Vertex, World


def died(view: NodeView, now: float, reason: str, by: str | None = None, told: Vertex | None = None) -> list[Change]:
    """One transaction: the node is not alive, and every committed noderole on it is TODO or BLOCKED, with all below.

    One whose run is to be ended stays in TRANSITION: when the machine is back, somebody takes it over and ends it.

    One whose record cannot be read is left as it is, as nobody may write it. The run that was going on there is accounted
    for, unless its annealer does that itself (``told``).
    What is below on other nodes beyond the size of a transaction is settled by the annealers that watch those.
    """
    node = _present(view)
    events: dict[Vertex, Event] = {
        v: Event.NODE_DIED
        for v in view.noderoles.values()
        if v.record.state is not State.PROPOSED and v.record.ending is None and not v.unreadable
    }
    was_alive = node.alive and node.available  # while it is not available, its noderoles are left as they are
    moved = apply(events, now, by=by, reason=reason) if was_alive else {}
    own_first = sorted(moved, key=lambda vertex: vertex.node is not view)
    dead = replace(node, alive=False, reason=reason, since=now)
    runs = [
        change
        for v in moved
        if v.node is view and v is not told
        for change in accounted(v, now, "died", f"{view.name}: {reason}")
    ]
    return [Set(paths.node(view.name), dead, view.version), *settling({v: moved[v] for v in own_first}), *runs]


def revived(view: NodeView, now: float, host_keys: Iterable[str] = ()) -> list[Change]:
    """The machine answers; its noderoles are as its death left them, so annealers go on by themselves."""
    node = _present(view)
    pinned = node.host_keys or tuple(host_keys)
    alive = replace(node, alive=True, reason=None, since=now, host_keys=pinned)
    return [Set(paths.node(view.name), alive, view.version)]


def pinned(view: NodeView, host_key: str) -> list[Change]:
    """The machine is alive and showed its key, where the record has none: from now on that key counts."""
    return [Set(paths.node(view.name), replace(_present(view), host_keys=(host_key,)), view.version)]


def changed(world: World, view: NodeView, now: float, by: str | None = None, **fields: Any) -> list[Change]:
    """The node with other fields; ``alive=False`` is a death. Roles with a hook on_node_change get it to run.

    Raises Conflict where it would move to a deployment that does not exist.
    """
    node = _present(view)
    if fields.get("deployment", node.deployment) not in (node.deployment, *world.deployments):
        raise Conflict(f"deployment {fields['deployment']} does not exist; node {view.name} cannot move there")
    if fields.get("alive") is False and node.alive:
        first, *rest = died(view, now, fields.pop("reason", None) or f"marked so by {by or 'a person'}", by)
        assert isinstance(first, Set), "died() names the node first"
        assert isinstance(first.data, Node), "died() names the node first"
        node = first.data
    else:
        rest = []
    if "alive" in fields or "available" in fields:
        fields.setdefault("since", now)
    hooks = with_hook(world, node.hooks, "on_node_change")
    return structure.raised(
        world, [Set(paths.node(view.name), replace(node, **fields, hooks=hooks), view.version), *rest]
    )


def with_hook(world: World, pending: tuple[str, ...], hook: str) -> tuple[str, ...]:
    """The hooks that wait, with this one where any role in the catalogue has it."""
    wanted = hook not in pending and any(hook in stored.record.hooks for stored in world.roles.values())
    return (*pending, hook) if wanted else pending


def _present(view: NodeView) -> Node:
    unreadable.refuse(view.world, [paths.node(view.name)])
    if view.record is None:
        raise Conflict(f"node {view.name} is gone")
    return view.record
