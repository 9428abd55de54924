"""The noderoles of a phase of a rollout: their states, and those that an action moves.

A phase may name roles. Then it takes their noderoles on the node, with all that these need there. It may name stages of the
task list. Then it takes the tasks before them of the rollout's own run (``RolloutRecord.sends``). If it names neither and is
the last, it takes every noderole of the node that is no task. If it is not the last, it takes none. Noderoles outside the
rollout's deployment and those below it are never committed.

A task that failed, and may, is about to be let pass: it counts as at work. The same holds for a noderole that waits for a
failed task on another node, while the criteria of that node's groups tolerate the failure. The driver of the run then lets
it go on.

A rollout that reruns ACTIVE noderoles takes of these the roles that its node's ``Progress.again`` names. It judges them by
the epoch of their newest run: while that is the one from before the rollout, the rerun is still to come. It refreshes, and
never commits or proposes. A rollout that redeploys takes destructive ones, too. There a node is done when the noderoles that
the redeployment set back on it are ACTIVE again, too: all of a machine that was installed, else those below.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from nodepool_ocb.engine import installing, unreadable
from nodepool_ocb.engine.deployments import below
from nodepool_ocb.engine.noderole import Event, renewing
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import State
from nodepool_ocb.rollout import groups, moves
from nodepool_ocb.rollout.observation import Seen
from nodepool_ocb.rollout.records import LOST, Rollout
from nodepool_ocb.rollout.rounds import returned
from nodepool_ocb.rollout.step import Action, Directive, watched


class Observer:
    """One view of the world, looked at for one rollout.

    ``unreadable`` names noderoles with records that cannot be decoded. To which phase they belong is not known, so their node
    passes none until they can be.
    """

    def __init__(
        self,
        world: World,
        deployment: str,
        rollout: Rollout,
        unreadable: Iterable[str] = (),
    ) -> None:
        self._world = world
        self._rollout = rollout
        self._again = rollout.head.again is not None
        self._recalled = returned.recalled(rollout)
        self._within = frozenset(below(world, deployment))
        self._torn = [f"{path} cannot be read" for path in unreadable_deployments(world)]
        self._runs = frozenset({None, rollout.head.task_run})  # runs with tasks that it may move; None: no task
        self._may_fail = frozenset(rollout.head.may_fail)
        self._borne: dict[str, bool] = {}
        self._unreadable: dict[str, list[str]] = {}
        for name in unreadable:
            self._unreadable.setdefault(name.partition("@")[2], []).append(name)
        self._blamed: dict[Vertex, Vertex | None] = {}

    def seen(self) -> dict[str, Seen]:
        """The states of the nodes that ``step`` asks for."""
        return {node: self._seen(node, phase) for node, phase in watched(self._rollout).items()}

    def moves(self, actions: Iterable[Action]) -> dict[Event, list[Vertex]]:
        """The argument for ``engine.commands.apply_all``: events, each with its noderoles."""
        found: dict[Event, list[Vertex]] = {}
        head = self._rollout.head
        for action in actions:
            own = self.noderoles(action.node, action.phase)
            for vertex in own:
                event = moves.event(head, action.directive, vertex, self._again and self._outdated(vertex))
                if event is not None:
                    found.setdefault(event, []).append(vertex)
            if head.redeploy and action.directive is Directive.RETRY:
                broken = [each for each in followers(own) if each.record.state is State.ERROR]
                found.setdefault(Event.RETRY, []).extend(broken)
        return {event: vertices for event, vertices in found.items() if vertices}

    def _outdated(self, vertex: Vertex) -> bool:
        """Whether it has not run since the rollout began."""
        return vertex.record.epoch <= self._rollout.nodes[vertex.node.name].again[vertex.role]

    def noderoles(self, node: str, phase: int) -> list[Vertex]:
        """The noderoles of a node's phase, by name."""
        view = self._world.nodes.get(node)
        if view is None:
            return []
        own = {
            role: vertex
            for role, vertex in view.noderoles.items()
            if vertex.record.deployment in self._within
            and vertex.record.task_run in self._runs
            and not vertex.unreadable
        }
        wanted = own if not self._again else self._rollout.nodes[node].again if node in self._rollout.nodes else ()
        phases = self._rollout.head.strategy.phases
        roles = {
            *phases[phase].roles,
            *self._rollout.head.sends.get(phases[phase].name, ()),
        }
        if phases[phase].roles or phases[phase].stages:
            chosen = _with_parents([own[role] for role in roles if role in own])
        else:
            left = (vertex for vertex in own.values() if vertex.record.task_run is None)
            chosen = set(left) if phase == len(phases) - 1 else set()
        meant = (vertex for vertex in chosen if own.get(vertex.role) is vertex and vertex.role in wanted)
        return sorted(meant, key=lambda each: each.role)

    def _seen(self, node: str, phase: int) -> Seen:
        view = self._world.nodes.get(node)
        if view is None or view.record is None:
            hidden = unreadable.node_hidden(self._world, node)
            return Seen(unread=1, reason=f"the record of node {node} cannot be read") if hidden else Seen(gone=True)
        counts: Counter[str] = Counter()
        reasons = self._torn + [f"{name} cannot be read" for name in self._unreadable.get(node, ())]
        errors = dict[str, int]()
        unread = len(reasons)
        for vertex, kind, reason in self._kinds(view, self.noderoles(node, phase)):
            if self._failed(vertex):
                errors[vertex.role] = vertex.record.generation
            if kind is not None:
                counts[kind] += 1
            if reason:
                reasons.append(reason)
        return Seen(
            proposed=counts["proposed"],
            outdated=counts["outdated"],
            waiting=counts["waiting"],
            running=counts["running"],
            cancelling=counts["cancelling"],
            errors=errors,
            stuck=counts["stuck"],
            unread=unread,
            reason="; ".join(sorted(reasons)[:3]),
        )

    def _kinds(self, view: NodeView, own: list[Vertex]) -> Iterator[tuple[Vertex, str | None, str | None]]:
        """Each noderole that counts for the phase, with its kind and the reason."""
        judge = (
            self._kind_redeployed if self._rollout.head.redeploy else self._kind_again if self._again else self._kind
        )
        found = [(vertex, *judge(vertex)) for vertex in own]
        yield from found
        if not self._rollout.head.redeploy or any(kind is not None for _, kind, _ in found) or self._ends(view):
            return
        for vertex in followers(own):
            kind, reason = self._kind(vertex)
            if vertex.record.state is State.ACTIVE and view.record is not None and view.record.dying:
                kind = "waiting"  # it is about to be set back
            yield vertex, kind, reason

    def _ends(self, view: NodeView) -> bool:
        """Whether the rollout waits no longer for the noderoles that follow: it is cancelled."""
        return self._recalled(self._rollout.nodes[view.name])

    def _kind_redeployed(self, vertex: Vertex) -> tuple[str | None, str | None]:
        """The kind of a noderole that is to be redeployed; a PROPOSED one is committed."""
        if vertex.record.state is State.ACTIVE:
            return ("outdated" if self._outdated(vertex) else None), None
        return self._kind(vertex)

    def _kind_again(self, vertex: Vertex) -> tuple[str | None, str | None]:
        """The kind of a noderole that is to rerun. The rollout does not take back a change by a person or a dead machine."""
        record = vertex.record
        match record.state:
            case State.ACTIVE if not self._outdated(vertex):
                return None, None
            case State.ACTIVE if renewing(record):
                return "waiting", None
            case State.ACTIVE if vertex.destructive:
                return "stuck", f"{vertex.name} is destructive, and is not run again"
            case State.ACTIVE:
                return "outdated", None
            case State.PROPOSED:
                return "stuck", f"{vertex.name} was proposed by hand"
            case State.TODO | State.BLOCKED if self._given_up(vertex):
                return "stuck", f"{vertex.name} is {record.state}, and begins when its machine and its parents let it"
        return self._kind(vertex)

    def _given_up(self, vertex: Vertex) -> bool:
        progress = self._rollout.nodes[vertex.node.name]
        return progress.state in LOST or self._recalled(progress)

    def _kind(self, vertex: Vertex) -> tuple[str | None, str | None]:
        match vertex.record.state:
            case State.PROPOSED:
                return "proposed", None
            case State.TODO:
                return "waiting", None
            case State.TRANSITION if vertex.record.cancel_reason is None:
                return "running", None
            case State.TRANSITION:
                hindered = _not_ended(vertex)
                if hindered is None:
                    return "cancelling", None
                return "stuck", f"{vertex.name} must be ended, and its machine {hindered}"
            case State.ERROR if not self._failed(vertex):
                return "running", None
            case State.ERROR:
                return None, f"{vertex.name}: {vertex.record.reason or 'in ERROR'}"
            case State.BLOCKED:
                culprit = self._culprit(vertex)
                return (
                    ("waiting", None)
                    if culprit is None
                    else ("stuck", f"{vertex.name} waits for {culprit.name}, in ERROR")
                )
        return None, None

    def _failed(self, vertex: Vertex) -> bool:
        return vertex.record.state is State.ERROR and vertex.role not in self._may_fail

    def _bears(self, vertex: Vertex, failed: Vertex) -> bool:
        """Whether a noderole on another node goes on without a task that failed."""
        node = failed.node.name
        if failed.record.task_run is None or failed.node is vertex.node:
            return False
        if node not in self._borne:
            own = [name for name, members in self._rollout.members.items() if node in members]
            self._borne[node] = bool(own) and not any(groups.unmeetable(self._rollout, name) for name in own)
        return self._borne[node]

    def _culprit(self, vertex: Vertex) -> Vertex | None:
        """A noderole in ERROR above one that is BLOCKED; results on the way are kept for the others."""
        if vertex in self._blamed:
            return self._blamed[vertex]
        found, met, queue = None, {vertex}, deque([vertex])
        while queue and found is None:
            for parent in queue.popleft().parents:
                if self._failed(parent) and not self._bears(vertex, parent):
                    found = parent
                elif parent.record.state is State.BLOCKED and parent not in met:
                    met.add(parent)
                    queue.append(parent)
        if found is None:
            self._blamed |= dict.fromkeys(met)  # none of them has an ERROR above it
        self._blamed[vertex] = found
        return found


def followers(vertices: Iterable[Vertex]) -> list[Vertex]:
    """The committed noderoles that a redeployment of these sets back on their node, tasks left out."""
    own = set(vertices)
    found: set[Vertex] = set()
    for vertex in own:
        found |= set(vertex.node.noderoles.values()) if installing.installs(vertex) else _below(vertex)
    left = (each for each in found - own if each.record.state is not State.PROPOSED and each.record.task_run is None)
    return sorted((each for each in left if not each.unreadable), key=lambda each: each.role)


def _below(vertex: Vertex) -> set[Vertex]:
    """The noderoles on its node that wait for it, or for one of these."""
    found: set[Vertex] = set()
    queue = [vertex]
    while queue:
        for child in queue.pop().children:
            if child.node is vertex.node and child not in found:
                found.add(child)
                queue.append(child)
    return found


def unreadable_deployments(world: World) -> list[str]:
    """The records of deployments that were never read: which noderoles are below one is not known."""
    named = ((path, path.split("/")[3:]) for path in world.unreadable if path.startswith(f"{paths.DEPLOYMENTS}/"))
    return [path for path, names in named if len(names) == 1 and names[0] not in world.deployments]


def _not_ended(vertex: Vertex) -> str | None:
    """Why no annealer can end a run for now; None if the claim's annealer does, or the one that takes it over."""
    node = vertex.node.record
    if vertex.node.claim is not None:
        return None
    if node is None or not (node.alive or node.virtual):
        return "does not answer"
    if not node.available:
        return "is not available"
    return "is being deleted" if node.deleting else None


def _with_parents(vertices: Iterable[Vertex]) -> set[Vertex]:
    """Noderoles, and all above them on the same node."""
    found = set(vertices)
    queue = list(found)
    while queue:
        vertex = queue.pop()
        for parent in vertex.parents:
            if parent.node is vertex.node and parent not in found:
                found.add(parent)
                queue.append(parent)
    return found
