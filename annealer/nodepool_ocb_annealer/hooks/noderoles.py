"""Hooks of noderoles: one that raises makes its noderole ERROR."""

from __future__ import annotations

from nodepool_ocb.catalogue.code import Hooked
from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.claim import settling, writes
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.jigs.raised import sentence
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, NodeRole, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.hooks.calls import call, system, systems
from nodepool_ocb_annealer.hooks.installation import InstalledCode
from nodepool_ocb_annealer.hooks.job import Done, Job
from nodepool_ocb_annealer.hooks.pending_hooks import wanted


def job(context: AnnealerContext, installation: InstalledCode, name: str) -> Job | None:
    """The next hook of a noderole; None where there is none, or it cannot be run here and now."""
    vertex = context.world.vertex(name)
    if vertex is None or not vertex.record.hooks:
        return None
    hook, record, node = vertex.record.hooks[0], vertex.record, vertex.node.record
    stored = context.world.roles.get(vertex.role)
    if stored is None or _unreadable(vertex):
        return None  # looked at again when that changes
    barclamp = stored.record.barclamp
    if paths.system(vertex.role, vertex.node.name) in context.world.spoiled:
        return None  # so is this
    if hook not in stored.record.hooks:  # its barclamp was imported anew, without that code
        after = record.amended(hooks=tuple(each for each in record.hooks if each != hook))
        context.send(writes(vertex, after), lambda _: None, f"{hook} of {name}")
        return None
    if not installation.has(vertex.role, barclamp, hook):
        return None

    def work() -> Done | None:
        blob = codec.attributes(system(context.session, name))
        hooked = Hooked(name, node, record=record, attributes=blob, role=vertex.role)
        error = call(barclamp, hook, hooked)
        return Done([hooked], sentence(error) if error is not None else None, systems(context.session, hooked))

    def write(done: Done) -> list[Change]:
        return _changes(context, vertex, record, hook, done)

    return Job(work, write, record)


def _changes(context: AnnealerContext, vertex: Vertex, record: NodeRole, hook: str, done: Done) -> list[Change]:
    here = context.world.vertex(vertex.name)
    if here is not vertex or vertex.record is not record or _unreadable(vertex):
        return []  # it moved on, or is another of the same name: the hook runs again
    if done.error:
        moved = apply(
            {vertex: Event.FAIL},
            context.session.now(),
            by=context.identity,
            reason=f"{hook}: {done.error}",
        )
        own = moved.get(vertex, record)
        moved[vertex] = own.amended(hooks=tuple(name for name in own.hooks if name != hook))
        return settling(moved, (vertex,))
    changes = wanted(context, vertex.node, done)
    path = paths.noderole(vertex.role, vertex.node.name)
    now = changes.get(path)
    base = now.data if isinstance(now, Set) and isinstance(now.data, NodeRole) else record
    kept = tuple(name for name in base.hooks if name != hook)
    changes.pop(path, None)
    changes |= {change.path: change for change in writes(vertex, base.amended(hooks=kept))}
    return list(changes.values())  # its own record last: a refusal of an earlier write runs the hook again


def _unreadable(vertex: Vertex) -> bool:
    """Whether a record that a noderole's hook reads or writes cannot be read for now."""
    fqdn = vertex.node.name
    return unreadable.hooks_wait(vertex.node.world, paths.noderole(vertex.role, fqdn), paths.node(fqdn))
