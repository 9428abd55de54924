"""The requests of hooks, as changes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator

from nodepool_ocb.engine import attributes, liveness
from nodepool_ocb.engine.claim import writes
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.readiness import why_not
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.aliveness import Marker
from nodepool_ocb.model.records import Change, Create, Set, State
from nodepool_ocb.store.client import codec
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.hooks.hook_changes import NODE, HookChanges, merge
from nodepool_ocb_annealer.hooks.job import Done

log = logging.getLogger(__name__)


def wanted(context: AnnealerContext, view: NodeView, done: Done) -> dict[str, Change]:
    """The changes by hooks of one node or noderole, by path: each znode is written once in a transaction."""
    wishes = merge(view.record, done.hooked)
    changes: list[Change] = []
    if wishes.node:
        by, now = wishes.role or context.identity, context.session.now()
        changes += liveness.changed(context.world, view, now, by, marker=Marker.HOOK, **wishes.node)
        _say(wishes, NODE, view.name, changes)
    changes += _refreshed(context, wishes, {change.path for change in changes})
    changes += _systems(wishes, done)
    return {change.path: change for change in changes}


def at_work(world: World, names: Iterable[str], now: float) -> bool:
    """Whether any of these noderoles, which must run again, runs, and may have the former values.

    A successor lets the run of a dead annealer go on.
    """
    found = (world.vertex(name) for name in names)
    running = (each for each in found if each is not None and each.record.state is State.TRANSITION)
    return any(each.node.claim is not None or not why_not(world, each, now) for each in running)


def _refreshed(context: AnnealerContext, wishes: HookChanges, moved: Collection[str]) -> Iterator[Change]:
    """Dead noderoles, and those that wait for them, run again anyway."""
    found = map(context.world.vertex, wishes.refresh)
    active = [v for v in found if v is not None and not v.unreadable and v.record.state is State.ACTIVE]
    there = [v for v in active if paths.noderole(v.role, v.node.name) not in moved]
    now = context.session.now()
    events = {vertex: Event.REFRESH for vertex in there if _may_be_refreshed(vertex, now)}
    for vertex, record in apply(events, now, by=context.identity).items():
        yield from writes(vertex, record)


def _may_be_refreshed(vertex: Vertex, now: float) -> bool:
    try:
        apply({vertex: Event.REFRESH}, now)
    except Conflict as refused:
        log.warning("a hook wants %s to run again, and that is refused: %s", vertex.name, refused)
        return False
    return True


def _systems(wishes: HookChanges, done: Done) -> Iterator[Change]:
    for name, blob in wishes.systems.items():
        znode = done.systems.get(name)
        path = paths.system(*paths.split_noderole(name))
        before = codec.attributes(znode)
        merged = attributes.merge(before, blob)
        if merged == before:
            continue
        change = Create(path, merged) if znode is None else Set(path, merged, znode.version)
        _say(wishes, name, name, [change])
        yield change


def _say(wishes: HookChanges, about: str, name: str, changes: Collection[Change]) -> None:
    """Contradictions are said where something comes of them, and not each time the same hooks run."""
    for text in wishes.contradictions.get(about, ()) if changes else ():
        log.warning("%s: %s", name, text)
