"""Hooks: run after the transaction that caused them, at least once, by the annealer that ranks first for their subject.

The records themselves say which hooks are still to run, so a hook outlives whoever should have run it. A hook runs in a
thread; what it wants changed is written together with the note that it has run. One that raises makes its noderole
ERROR (noderole hooks), or is logged and counted (node and deployment hooks).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from nodepool_ocb.catalogue.code import Hooked, find, installed, look_again
from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb.daemon.agenda import Agenda
from nodepool_ocb.daemon.registration import Registration
from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.engine import attributes, liveness, nodes, structure, unreadable
from nodepool_ocb.engine.claim import Grant, settling, writes
from nodepool_ocb.engine.hookcode import brings
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.errors import Conflict, Denied, NotFound, OcbError, Spoiled, Stale, Unavailable
from nodepool_ocb.jigs.raised import sentence
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Check, Create, Delete, NodeRole, Set, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session, Znode
from nodepool_ocb.store.subtree import judged, subtree
from nodepool_ocb.store.touched import Touched
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.appointments import Appointment, Matter

log = logging.getLogger(__name__)

SLOW_SECONDS: Final = 0.05
AGAIN_SECONDS: Final = 2.0
MENDED_SECONDS: Final = 60.0  # for one that met attributes that cannot be read; it goes on at once when they can be
MOST_AT_ONCE: Final = 16  # hooks under way; each holds what it sees
SEPARATOR: Final = "/"
REFUSED_SECONDS: Final = 30.0  # until a deletion that something stands against is tried again


class Context(Protocol):
    """What hooking needs of the annealer."""

    session: Session
    world: World
    agenda: Agenda[Appointment]
    ranking: Ranking
    settings: AnnealerSettings
    identity: str
    registration: Registration

    def spoiled(self, path: str, reason: str) -> None: ...
    def post(self, call: Callable[[], None]) -> None: ...
    def send(self, changes: list[Change], then: Callable[[OcbError | None], None], what: str) -> None: ...


class Hooking:
    """Makes appointments for hooks, runs them, and writes what came of them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="hook")
        self._under_way: set[Appointment] = set()
        self._queue: dict[Appointment, None] = {}  # names alone: what a hook sees is put together when it runs
        self._of_role: dict[str, dict[str, NodeRole]] = {}  # noderoles of the roles that have node hooks
        self._views: dict[str, Mapping[str, NodeRole]] = {}  # of them, that hooks may be looking at: they never change
        self._order: list[str] | None = None  # the roles by depth; None where they have changed
        self._jobs: Mapping[Matter, Callable[[str], Job | None]] = {
            Matter.NODEROLE_HOOK: self._noderole,
            Matter.NODE_HOOK: self._node,
            Matter.DEPLOYMENT_HOOK: self._deployment,
        }
        self._said: set[tuple[str, str]] = set()  # role and hook whose code is not here

    def look(self, touched: Touched) -> None:
        """Make appointments for whatever has a hook to run among what changed."""
        for vertex in touched.vertices:
            if vertex.role in self._of_role:
                self._index(vertex)
            if vertex.record.hooks:
                self._appoint(Appointment(Matter.NODEROLE_HOOK, vertex.name), vertex.node.name)
        for fqdn in touched.nodes:
            view = self._context.world.nodes.get(fqdn)
            if view and view.record and (view.record.hooks or view.record.deleting):
                self._appoint(Appointment(Matter.NODE_HOOK, fqdn), fqdn)
        if touched.deployments:
            for (deployment, role), stored in self._context.world.deployment_roles.items():
                if stored.record.hooks or stored.record.deleting:
                    whom = f"{deployment}{SEPARATOR}{role}"
                    self._appoint(Appointment(Matter.DEPLOYMENT_HOOK, whom), deployment)

    def look_at_all(self) -> None:
        """As ``look``, at everything: what waits may be older than we are, or than the role's definition."""
        world = self._context.world
        self._order = None
        waiting = {vertex for vertex in world.vertices() if vertex.record.hooks}
        self.look(Touched(vertices=waiting, nodes=set(world.nodes), deployments=True))

    def look_for_code(self) -> None:
        """What was not installed here may be by now: then we say so, and it is run."""
        if self._said:
            look_again()
            if installed() != self._context.registration.record.code:
                self._said.clear()
                self._context.registration.change(code=installed())

    def due(self, matter: Matter, about: str) -> None:
        """An appointment has come: run the hook, unless it runs already."""
        asked = Appointment(matter, about)
        if asked in self._under_way:
            return
        if len(self._under_way) >= MOST_AT_ONCE:
            self._queue[asked] = None
            return
        job = self._jobs[matter](about)
        if job is not None:
            self._under_way.add(asked)
            self._threads.submit(self._run, asked, job)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _appoint(self, asked: Appointment, node: str, after_seconds: float = 0.0) -> None:
        wait = after_seconds + self._context.ranking.of(node) * self._context.settings.steal_delay_seconds
        self._context.agenda.at(time.monotonic() + wait, asked)

    # -- in the thread --

    def _run(self, asked: Appointment, job: Job) -> None:
        done: Done | None = None
        wait = AGAIN_SECONDS
        try:
            done = job.work()
        except (Stale, Unavailable, Denied) as error:
            log.warning("%s: %s", asked, error)
        except Spoiled as wrong:
            wait = MENDED_SECONDS
            self._context.post(partial(self._context.spoiled, wrong.path, str(wrong)))
        except Exception as error:
            log.exception("%s", asked)
            done = Done([], f"{type(error).__name__}: {error}", {})
        self._context.post(lambda: self._done(asked, job, done, wait))

    # -- back on the turn thread --

    def _done(self, asked: Appointment, job: Job, done: Done | None, again_seconds: float) -> None:
        changes = self._changes(asked, job, done)
        self._send(asked, list(limits.apart(changes)), again_seconds)

    def _send(self, asked: Appointment, parts: list[list[Change]], again_seconds: float) -> None:
        """One after the other, the note that the hook has run with the last: if one is refused the hook runs again."""
        if not parts:
            self._ended(asked, again_seconds)
            return
        first, *rest = parts

        def written(refused: OcbError | None) -> None:
            if refused is None and rest:
                self._send(asked, rest, again_seconds)
            else:
                self._ended(asked, again_seconds if refused else 0.0)

        self._context.send(first, written, str(asked))

    @staticmethod
    def _changes(asked: Appointment, job: Job, done: Done | None) -> list[Change]:
        """What the hook comes to; where what it wants cannot be, it has failed."""
        if done is None:
            return []
        for _ in range(2):
            try:
                return job.write(done)
            except Exception as error:
                log.exception("%s", asked)
                done = Done([], f"{type(error).__name__}: {error}", {})
        return []

    def _ended(self, asked: Appointment, again_seconds: float) -> None:
        self._under_way.discard(asked)
        self._appoint(asked, asked.about, again_seconds)  # another hook may wait
        while self._queue and len(self._under_way) < MOST_AT_ONCE:
            following = next(iter(self._queue))
            del self._queue[following]
            self.due(following.matter, following.about)

    def _installed(self, name: str, barclamp: str, hook: str) -> bool:
        """Whether the code is here; said once a role where it is not. It is looked for again with each sweep."""
        if brings(installed(), name, barclamp):
            return True
        if (name, hook) not in self._said:
            self._said.add((name, hook))
            log.warning(
                "%s of role %s: its code is not installed on this host; another annealer has to run it", hook, name
            )
        return False

    def _index(self, vertex: Vertex) -> None:
        if self._views.pop(vertex.role, None) is not None:
            self._of_role[vertex.role] = dict(self._of_role[vertex.role])
        known = self._of_role[vertex.role]
        if self._context.world.vertex(vertex.name) is vertex:
            known[vertex.name] = vertex.record
        else:
            known.pop(vertex.name, None)

    def _noderoles_of(self, name: str) -> Mapping[str, NodeRole]:
        """All noderoles of a role, as they are now; one view for all hooks until one of the noderoles changes."""
        if name not in self._of_role:
            self._of_role[name] = {v.name: v.record for v in self._context.world.vertices() if v.role == name}
        return self._views.setdefault(name, MappingProxyType(self._of_role[name]))

    # -- noderole hooks --

    def _noderole(self, name: str) -> Job | None:
        vertex = self._context.world.vertex(name)
        if vertex is None or not vertex.record.hooks:
            return None
        hook, record, node = vertex.record.hooks[0], vertex.record, vertex.node.record
        stored = self._context.world.roles.get(vertex.role)
        if stored is None or _unreadable(vertex):
            return None  # looked at again when that changes
        barclamp = stored.record.barclamp
        if paths.system(vertex.role, vertex.node.name) in self._context.world.spoiled:
            return None  # so is this
        if not self._installed(vertex.role, barclamp, hook):
            return None

        def work() -> Done | None:
            hooked = Hooked(name, node, record, codec.attributes(_system(self._context.session, name)))
            error = _call(vertex.role, barclamp, hook, hooked)
            return Done(
                [hooked], sentence(error) if error is not None else None, _systems(self._context.session, hooked)
            )

        def write(done: Done) -> list[Change]:
            return self._noderole_changes(vertex, record, hook, done)

        return Job(work, write)

    def _noderole_changes(self, vertex: Vertex, record: NodeRole, hook: str, done: Done) -> list[Change]:
        here = self._context.world.vertex(vertex.name)
        if here is not vertex or vertex.record is not record or _unreadable(vertex):
            return []  # it moved on, or is another of the same name: the hook runs again
        if done.error:
            moved = apply(
                {vertex: Event.FAIL},
                self._context.session.now(),
                by=self._context.identity,
                reason=f"{hook}: {done.error}",
            )
            own = moved.get(vertex, record)
            moved[vertex] = replace(own, hooks=tuple(name for name in own.hooks if name != hook))
            return settling(moved, (vertex,))
        changes = self._wanted(vertex.node, done)
        path = paths.noderole(vertex.role, vertex.node.name)
        now = changes.get(path)
        base = now.data if isinstance(now, Set) and isinstance(now.data, NodeRole) else record
        kept = tuple(name for name in base.hooks if name != hook)
        changes |= {change.path: change for change in writes(vertex, replace(base, hooks=kept))}
        return list(changes.values())

    def _wanted(self, view: NodeView | None, done: Done) -> dict[str, Change]:
        """What hooks asked for, by path: each znode is written once in a transaction."""
        world, identity = self._context.world, self._context.identity
        changes: list[Change] = []
        for hooked in done.hooked:
            if hooked.set_node and view is not None:
                changes += liveness.changed(world, view, self._context.session.now(), by=identity, **hooked.set_node)
            found = (world.vertex(name) for name in hooked.refresh)
            ready = (each for each in found if each is not None and not each.unreadable)
            events = {each: Event.REFRESH for each in ready if each.record.state is State.ACTIVE}
            moved = apply(events, self._context.session.now(), by=identity)
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

    # -- node hooks --

    def _node(self, fqdn: str) -> Job | None:
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
        hook, world = node.hooks[0], self._context.world
        self._order = self._order or _by_depth(world)
        roles = [name for name in self._order if name in world.roles and hook in world.roles[name].record.hooks]
        barclamps = {name: world.roles[name].record.barclamp for name in roles}
        if not all(self._installed(name, barclamps[name], hook) for name in roles):
            return None
        own = {name: self._noderoles_of(name) for name in roles}

        def work() -> Done | None:
            done = Done([], None, {})
            for name in roles:
                hooked = Hooked(fqdn, node, noderoles=own[name])
                if _call(name, barclamps[name], hook, hooked) is None:
                    done.hooked.append(hooked)
                    done.systems.update(_systems(self._context.session, hooked))
            return done

        def write(done: Done) -> list[Change]:
            hidden = unreadable.hooks_wait(world, paths.node(fqdn))
            if hidden or world.nodes.get(fqdn) is not view or view.record is not node:
                return []
            changes = self._wanted(view, done)
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
            self._appoint(Appointment(Matter.NODE_HOOK, fqdn), fqdn, REFUSED_SECONDS)
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

    # -- deployment hooks --

    def _deployment(self, whom: str) -> Job | None:
        deployment, _, name = whom.partition(SEPARATOR)
        stored = self._context.world.deployment_roles.get((deployment, name))
        found = self._context.world.roles.get(name)
        if stored is None or found is None:
            return None
        record, path, barclamp = stored.record, paths.deployment_role(deployment, name), found.record.barclamp
        if unreadable.hooks_wait(self._context.world, path):
            return None  # looked at again when that changes
        if record.deleting and not record.hooks:
            deletion = structure.raised(self._context.world, [Delete(path, stored.version)])
            self._context.send(deletion, lambda _: None, f"deleting {whom}")
            return None
        if not record.hooks:
            return None
        hook = record.hooks[0]
        if not self._installed(name, barclamp, hook):
            return None

        def work() -> Done | None:
            hooked = Hooked(deployment, attributes=record.system)
            error = _call(name, barclamp, hook, hooked)
            return Done([hooked], sentence(error) if error is not None else None, {})

        def write(done: Done) -> list[Change]:
            wanted = done.hooked[0].set_system.get(deployment, {}) if done.hooked else {}
            system = attributes.merge(record.system, wanted)
            return [Set(path, replace(record, hooks=record.hooks[1:], system=system), stored.version)]

        return Job(work, write)


def _unreadable(vertex: Vertex) -> bool:
    """Whether what a noderole's hook is run for, or may write, cannot be read for now."""
    fqdn = vertex.node.name
    return unreadable.hooks_wait(vertex.node.world, paths.noderole(vertex.role, fqdn), paths.node(fqdn))


class Done(msgspec.Struct):
    """What hooks want, and what is needed to write it."""

    hooked: list[Hooked]
    error: str | None
    systems: dict[str, Znode | None]  # the system attributes of the noderoles that they want to change
    going: list[Znode] = []


class Job(NamedTuple):
    """``work`` runs the hook, in a thread: None to try again later. ``write`` says what comes of it, on the turn thread."""

    work: Callable[[], Done | None]
    write: Callable[[Done], list[Change]]


def on_transition(session: Session, grant: Grant, barclamp: str) -> Exception | None:
    """Run the hook of a noderole that was just claimed, before its jig; gives what it raised.

    Only ``set_system`` is heeded: the jig sees it. Call it in a slot's thread. Raises what session.commit() raises.
    """
    vertex = grant.vertex
    if find(vertex.role, barclamp) is None:
        return NotFound("the code of its role is not installed on the annealer's host")
    hooked = Hooked(vertex.name, vertex.node.record, grant.record, codec.attributes(_system(session, vertex.name)))
    error = _call(vertex.role, barclamp, "on_transition", hooked)
    wanted = hooked.set_system.get(vertex.name)
    if error is None and wanted:
        znode = _system(session, vertex.name)
        path = paths.system(vertex.role, vertex.node.name)
        merged = attributes.merge(codec.attributes(znode), wanted)
        write = Set(path, merged, znode.version) if znode else Create(path, merged)
        session.commit([Check(paths.fence(grant.fqdn), grant.fence), write])
    return error


def _call(role: str, barclamp: str, hook: str, hooked: Hooked) -> Exception | None:
    """Run one hook, timed; gives what it raised."""
    started = time.monotonic()
    try:
        getattr(find(role, barclamp), hook)(hooked)
    except Exception as error:
        log.exception("%s of role %s for %s", hook, role, hooked.subject)
        metrics.HOOK_FAILURES.labels(hook).inc()
        return error
    finally:
        took = time.monotonic() - started
        metrics.HOOK_SECONDS.labels(hook).observe(took)
        if took > SLOW_SECONDS:
            log.warning(
                "%s of role %s for %s took %.0f ms; hooks are to be fast", hook, role, hooked.subject, took * 1e3
            )
    return None


def _by_depth(world: World) -> list[str]:
    graph = {name: [need for need in each.record.requires if need in world.roles] for name, each in world.roles.items()}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError:
        return sorted(graph)


def _system(session: Session, noderole: str) -> Znode | None:
    return session.get(paths.system(*paths.split_noderole(noderole)))


def _systems(session: Session, hooked: Hooked) -> dict[str, Znode | None]:
    """Raises Spoiled where what it wants to change cannot be read."""
    names: Iterable[str] = hooked.set_system
    systems = {name: _system(session, name) for name in names}
    for znode in systems.values():
        codec.attributes(znode)
    return systems
