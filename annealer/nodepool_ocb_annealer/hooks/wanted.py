"""What hooks asked for, as changes."""

from __future__ import annotations

from nodepool_ocb.engine import attributes, liveness
from nodepool_ocb.engine.claim import writes
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import NodeView
from nodepool_ocb.model import paths
from nodepool_ocb.model.aliveness import Marker
from nodepool_ocb.model.records import Change, Create, Set, State
from nodepool_ocb.store.client import codec
from nodepool_ocb_annealer.hooks.context import Context
from nodepool_ocb_annealer.hooks.job import Done


def wanted(context: Context, view: NodeView | None, done: Done) -> dict[str, Change]:
    """What hooks asked for, by path: each znode is written once in a transaction."""
    world, identity = context.world, context.identity
    changes: list[Change] = []
    for hooked in done.hooked:
        if hooked.set_node and view is not None:
            now, marker = context.session.now(), Marker.HOOK
            changes += liveness.changed(world, view, now, identity, marker=marker, **hooked.set_node)
        found = (world.vertex(name) for name in hooked.refresh)
        ready = (each for each in found if each is not None and not each.unreadable)
        events = {each: Event.REFRESH for each in ready if each.record.state is State.ACTIVE}
        moved = apply(events, context.session.now(), by=identity)
        changes += [change for each, record in moved.items() for change in writes(each, record)]
        for name, wanted in hooked.set_system.items():
            znode = done.systems.get(name)
            path = paths.system(*paths.split_noderole(name))
            merged = attributes.merge(codec.attributes(znode), wanted)
            if znode is None:
                changes.append(Create(path, merged))
            elif merged != codec.attributes(znode):
                changes.append(Set(path, merged, znode.version))
    return {change.path: change for change in changes}
