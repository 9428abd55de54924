"""Hooks of nodes: every role that has one is called, in the order of their depth; then a node that is to be deleted goes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.catalogue.code import Hooked
from nodepool_ocb.engine import nodes, unreadable
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import Conflict, OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Node, NodeRole, Set
from nodepool_ocb.store.subtree import judged, subtree
from nodepool_ocb_annealer.appointments import Appointment, Matter
from nodepool_ocb_annealer.hooks.calls import call, systems
from nodepool_ocb_annealer.hooks.context import Context, appoint
from nodepool_ocb_annealer.hooks.installation import Installation
from nodepool_ocb_annealer.hooks.job import Done, Job
from nodepool_ocb_annealer.hooks.wanted import wanted

log = logging.getLogger(__name__)

REFUSED_SECONDS: Final = 30.0  # until a deletion that something stands against is tried again


class NodeHooks:
    """Keeps what the hooks are shown: the noderoles of their roles, and the order of the roles."""

    def __init__(self, context: Context, installation: Installation) -> None:
        self._context, self._installation = context, installation
        self._of_role: dict[str, dict[str, NodeRole]] = {}  # noderoles of the roles that have node hooks
        self._views: dict[str, Mapping[str, NodeRole]] = {}  # of them, that hooks may be looking at: they never change
        self._order: list[str] | None = None  # the roles by depth; None where they have changed

    def note(self, vertex: Vertex) -> None:
        """A noderole that changed, came or went."""
        if vertex.role not in self._of_role:
            return
        if self._views.pop(vertex.role, None) is not None:
            self._of_role[vertex.role] = dict(self._of_role[vertex.role])
        known = self._of_role[vertex.role]
        if self._context.world.vertex(vertex.name) is vertex:
            known[vertex.name] = vertex.record
        else:
            known.pop(vertex.name, None)

    def forget_order(self) -> None:
        """Roles may have changed."""
        self._order = None

    def job(self, fqdn: str) -> Job | None:
        """The next hook of a node, or its deletion; None where there is none, or it cannot be run here and now."""
        view = self._context.world.nodes.get(fqdn)
        if view is None or view.record is None:
            return None
        node = view.record
        if unreadable.hooks_wait(self._context.world, paths.node(fqdn), paths.claim(fqdn)):
            return None  # looked at again when that changes
        if node.deleting and not node.hooks:
            return self._delete(view)
        if not node.hooks:
            return None
        hook = node.hooks[0]
        roles = self._roles(hook)
        if not all(self._installation.has(name, barclamp, hook) for name, barclamp in roles.items()):
            return None
        return self._run(view, node, hook, roles)

    def _roles(self, hook: str) -> dict[str, str]:
        """The barclamps of the roles that have the hook, the least deep role first."""
        roles = self._context.world.roles
        self._order = self._order or _by_depth(self._context.world)
        known = (name for name in self._order if name in roles)
        return {name: roles[name].record.barclamp for name in known if hook in roles[name].record.hooks}

    def _run(self, view: NodeView, node: Node, hook: str, roles: Mapping[str, str]) -> Job:
        world, fqdn = self._context.world, view.name
        own = {name: self._noderoles_of(name) for name in roles}

        def work() -> Done | None:
            done = Done([], None, {})
            for name, barclamp in roles.items():
                hooked = Hooked(fqdn, node, noderoles=own[name])
                if call(name, barclamp, hook, hooked) is None:
                    done.hooked.append(hooked)
                    done.systems.update(systems(self._context.session, hooked))
            return done

        def write(done: Done) -> list[Change]:
            hidden = unreadable.hooks_wait(world, paths.node(fqdn))
            if hidden or world.nodes.get(fqdn) is not view or view.record is not node:
                return []
            changes = wanted(self._context, view, done)
            path = paths.node(fqdn)
            now = changes.get(path)
            base = now.data if isinstance(now, Set) and isinstance(now.data, type(node)) else node
            kept = tuple(name for name in base.hooks if name != hook)
            changes[path] = Set(path, replace(base, hooks=kept), view.version)
            return list(changes.values())

        return Job(work, write)

    def _delete(self, view: NodeView) -> Job | None:
        """The hooks of on_node_delete have run: the node goes."""
        session, world, fqdn = self._context.session, self._context.world, view.name
        try:
            elsewhere = [vertex for vertex in reversed(nodes.going(view)) if vertex.node is not view]
        except Conflict as refused:
            log.warning("%s cannot be deleted: %s", fqdn, refused)
            appoint(self._context, Appointment(Matter.NODE_HOOK, fqdn), fqdn, REFUSED_SECONDS)
            return None
        places = [*(paths.noderole(vertex.role, vertex.node.name) for vertex in elsewhere), paths.node(fqdn)]

        def work() -> Done | None:
            return Done([], None, {}, [znode for place in places for znode in subtree(session, place)])

        def write(done: Done) -> list[Change]:
            """The next part: the node itself goes last, and while it is ``deleting`` nobody claims it."""
            try:
                return next(nodes.taking_away(world, fqdn, judged(world, done.going)))
            except OcbError as refused:
                log.info("%s is not deleted yet: %s", fqdn, refused)
                return []

        return Job(work, write)

    def _noderoles_of(self, name: str) -> Mapping[str, NodeRole]:
        """All noderoles of a role, as they are now; one view for all hooks until one of the noderoles changes."""
        if name not in self._of_role:
            self._of_role[name] = {v.name: v.record for v in self._context.world.vertices() if v.role == name}
        return self._views.setdefault(name, MappingProxyType(self._of_role[name]))


def _by_depth(world: World) -> list[str]:
    graph = {name: [need for need in each.record.requires if need in world.roles] for name, each in world.roles.items()}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError:
        return sorted(graph)
