"""Hooks of nodes: every role that has one is called, in the order of their depth; then a node that is to be deleted goes."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.catalogue.code import Hooked
from nodepool_ocb.engine import nodes, unreadable
from nodepool_ocb.engine.hooks.node import heard, noticed
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import Conflict, OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Node, NodeRole, Set
from nodepool_ocb.store.subtree import leaving, node_subtree, subtree
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.hooks.calls import call, systems
from nodepool_ocb_annealer.hooks.installation import InstalledCode
from nodepool_ocb_annealer.hooks.job import Done, Job
from nodepool_ocb_annealer.hooks.pending_hooks import wanted
from nodepool_ocb_annealer.hooks.scheduling import schedule
from nodepool_ocb_annealer.refusals import Refusals
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind

log = logging.getLogger(__name__)

REFUSED_SECONDS: Final = 30.0  # until a deletion that something stands against is tried again
CHANGE: Final = "on_node_change"
ROUNDS: Final = 4  # of it that may follow one another at once, as hooks hear of changes by hooks of other roles
ENDLESS: Final = "hooks of on_node_change change the node again and again, each after the other"


class NodeHooks:
    """Keeps the inputs of the hooks: the noderoles of their roles, and the order of the roles."""

    def __init__(self, context: AnnealerContext, installation: InstalledCode) -> None:
        self._context, self._installation = context, installation
        self._of_role: dict[str, dict[str, NodeRole]] = {}  # noderoles of the roles that have node hooks
        self._views: dict[str, Mapping[str, NodeRole]] = {}  # of them, that hooks may be looking at: they never change
        self._order: list[str] | None = None  # the roles by depth; None where they have changed
        self._rounds = Refusals(ROUNDS, 1.0, ROUNDS)  # of on_node_change, each of which changed the node

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
            return self._delete(view, node)
        if not node.hooks:
            return None
        hook = node.hooks[0]
        until = self._rounds.until(fqdn, time.monotonic()) if hook == CHANGE else None
        if until is not None:
            schedule(self._context, Timer(TimerKind.NODE_HOOK, fqdn), fqdn, until - time.monotonic())
            return None
        roles = self._roles(hook, node)
        if not all(self._installation.has(name, barclamp, hook) for name, barclamp in roles.items()):
            return None
        return self._run(view, node, hook, roles)

    def _roles(self, hook: str, node: Node) -> dict[str, str]:
        """The barclamps of the roles with a hook to call, the least deep role first."""
        roles = self._context.world.roles
        self._order = self._order or _by_depth(self._context.world)
        known = (name for name in self._order if name in roles)
        having = {name: roles[name].record.barclamp for name in known if hook in roles[name].record.hooks}
        changed = node.changed if hook == CHANGE else {}
        return {name: barclamp for name, barclamp in having.items() if not changed or heard(changed, name)}

    def _run(self, view: NodeView, node: Node, hook: str, roles: Mapping[str, str]) -> Job:
        world, fqdn = self._context.world, view.name
        own = {name: self._noderoles_of(name) for name in roles}
        changed = node.changed if hook == CHANGE else {}

        def work() -> Done | None:
            done = Done([], None, {})
            for name, barclamp in roles.items():
                hooked = Hooked(fqdn, node, heard(changed, name), noderoles=own[name], role=name)
                if call(barclamp, hook, hooked) is None:
                    done.hooked.append(hooked)
                    done.systems.update(systems(self._context.session, hooked))
            return done

        def write(done: Done) -> list[Change]:
            hidden = unreadable.hooks_wait(world, paths.node(fqdn))
            if hidden or world.nodes.get(fqdn) is not view or view.record is not node:
                return []
            changes, hooked = self._wanted(view, done, hook)
            path = paths.node(fqdn)
            now = changes.pop(path, None)
            after = now.data if isinstance(now, Set) and isinstance(now.data, Node) else node
            ran = Set(path, self._ran(view, node, after, hook, _changers(hooked)), view.version)
            return [*changes.values(), ran]  # last: a refusal of an earlier write runs the hook again

        return Job(work, write, node)

    def _wanted(self, view: NodeView, done: Done, hook: str) -> tuple[dict[str, Change], list[Hooked]]:
        """The changes of the hooks, by role; a role with an impossible change is left out, as if its hook had raised."""
        try:
            return wanted(self._context, view, done), done.hooked
        except OcbError:
            possible = []
            for each in done.hooked:
                try:
                    wanted(self._context, view, Done([each], None, done.systems))
                except OcbError as refused:
                    log.error("%s of role %s for %s: %s", hook, each.role, view.name, refused)
                    metrics.HOOK_FAILURES.labels(hook).inc()
                else:
                    possible.append(each)
            return wanted(self._context, view, Done(possible, None, done.systems)), possible

    def _ran(self, view: NodeView, before: Node, after: Node, hook: str, by: Mapping[str, str]) -> Node:
        """The node without the hook; changes by on_node_change call the hooks of the other roles, in another round."""
        after = replace(after, hooks=tuple(name for name in after.hooks if name != hook))
        if hook != CHANGE:
            return after
        after = noticed(view.world, before, replace(after, changed={}), by)
        if CHANGE not in after.hooks:
            self._rounds.well(view.name)
        else:
            wait = self._rounds.refused(view.name, time.monotonic())
            if self._rounds.news(view.name, ENDLESS):
                log.warning("%s: %s (%s); next in %.0f s", view.name, ENDLESS, ", ".join(after.changed), wait)
        return after

    def _delete(self, view: NodeView, node: Node) -> Job | None:
        """The hooks of on_node_delete have run: the node goes."""
        session, world, fqdn = self._context.session, self._context.world, view.name
        try:
            elsewhere = [vertex for vertex in reversed(nodes.going(view)) if vertex.node is not view]
        except Conflict as refused:
            log.warning("%s cannot be deleted: %s", fqdn, refused)
            schedule(self._context, Timer(TimerKind.NODE_HOOK, fqdn), fqdn, REFUSED_SECONDS)
            return None
        places = [paths.noderole(vertex.role, vertex.node.name) for vertex in elsewhere]

        def work() -> Done | None:
            of_others = [znode for place in places for znode in subtree(session, place)]
            return Done([], None, {}, [*of_others, *node_subtree(session, fqdn, node)])

        def write(done: Done) -> list[Change]:
            """The next part: the node itself goes last, and while it is ``deleting`` it is not claimed."""
            try:
                return next(nodes.taking_away(world, fqdn, leaving(world, fqdn, done.going)))
            except OcbError as refused:
                log.info("%s is not deleted yet: %s", fqdn, refused)
                return []

        return Job(work, write, node)

    def _noderoles_of(self, name: str) -> Mapping[str, NodeRole]:
        """All noderoles of a role, as they are now; one view for all hooks until one of the noderoles changes."""
        if name not in self._of_role:
            self._of_role[name] = {v.name: v.record for v in self._context.world.vertices() if v.role == name}
        return self._views.setdefault(name, MappingProxyType(self._of_role[name]))


def _changers(hooked: Sequence[Hooked]) -> dict[str, str]:
    """Field → the role, if only one, with the hook that set it."""
    roles: dict[str, list[str]] = {}
    for each in hooked:
        for name in each.set_node:
            roles.setdefault(name, []).append(each.role)
    return {name: by[0] for name, by in roles.items() if len(by) == 1}


def _by_depth(world: World) -> list[str]:
    graph = {name: [need for need in each.record.requires if need in world.roles] for name, each in world.roles.items()}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError:
        return sorted(graph)
