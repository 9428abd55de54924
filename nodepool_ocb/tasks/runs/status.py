"""The state of each task of a run, from its noderoles: one look at the world, and the consequences for the whole. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine import maintenance, marks
from nodepool_ocb.engine.noderole import satisfied
from nodepool_ocb.engine.world import NodeView, Vertex, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Node, State
from nodepool_ocb.tasks.compiling.draft import sorted_out
from nodepool_ocb.tasks.plan import VIRTUAL, Bears
from nodepool_ocb.tasks.runs.records import Definition, LoadedTaskRun, Tolerance

GONE: Final = "its noderole is gone, or was taken by a later run"
WAITING: Final = frozenset({State.TODO, State.BLOCKED})
HELD_BACK: Final = WAITING | {State.PROPOSED}


class RunStatus:
    """The state of a run at one look. Positions are vertices of its plan."""

    def __init__(self, world: World, running: LoadedTaskRun, now: float) -> None:
        self.world, self.running, self._now = world, running, now
        self.vertices = [vertex_of(world, running, at) for at in range(len(running.plan))]

    def of(self, *states: State) -> Iterator[tuple[int, Vertex]]:
        """The vertices in one of these states, each with its position."""
        return (
            (at, vertex)
            for at, vertex in enumerate(self.vertices)
            if vertex is not None and vertex.record.state in states
        )

    @cached_property
    def sending(self) -> bool:
        """Whether a rollout may still send tasks of the run: it is under way, or has not begun."""
        head, deployment = self.running.head, self.running.deployment
        if not head.held or head.rollout is None or paths.rollouts(deployment) in self.world.unreadable:
            return head.held
        stored = self.world.rollouts.get(deployment)
        return stored is not None and stored.record.newest == head.rollout and not stored.record.over

    @property
    def unsent(self) -> str | None:
        """Why a PROPOSED noderole without a reason is not run; None if it may still be committed."""
        head = self.running.head
        if not head.held or (self.sending and not head.stop):
            return None
        if head.rollout is None:
            return "no rollout that sends it began"
        return f"rollout {self.running.deployment}/{head.rollout} did not send it"

    # -- failures --

    @cached_property
    def allowed(self) -> list[Vertex]:
        """The failed noderoles with tasks that may fail."""
        return [vertex for at, vertex in self.of(State.ERROR) if not self._definition(at).fail_on_error]

    @cached_property
    def failures(self) -> dict[str, str]:
        """The nodes that failed, each with the reason: a task of it failed, or the machine is away for too long."""
        found: dict[str, str] = {}
        for at, vertex in self.of(State.ERROR):
            if self._definition(at).fail_on_error:
                found.setdefault(vertex.node.name, f"{vertex.name} failed")
        for _, vertex in self.of(State.TODO, State.TRANSITION) if not self.sending else ():
            name = vertex.node.name
            if name not in found and (why := self._away(vertex.node)):
                found[name] = why
        for name in self.running.head.away:
            found.setdefault(name, f"node {name} did not answer")
        return found

    @cached_property
    def away(self) -> tuple[str, ...]:
        """The nodes that failed because their machines are away, or were so for too long."""
        broken = {vertex.node.name for at, vertex in self.of(State.ERROR) if self._definition(at).fail_on_error}
        return tuple(sorted(name for name in self.failures if name not in broken or name in self.running.head.away))

    def _away(self, view: NodeView) -> str | None:
        node = view.record
        if node is None or node.virtual or node.alive or view.claim is not None:
            return None
        if self.pauses or self._now < self._patient_until(node):
            return None
        why = marks.why(node)
        return f"node {view.name} does not answer" + (f": {why}" if why else "")

    def _patient_until(self, node: Node) -> float:
        return max(node.since, self.running.head.resumed) + self.running.head.patience_seconds

    @cached_property
    def pauses(self) -> list[Maintenance]:
        """The pauses of its deployment now: then nothing begins, and no machine is away for too long."""
        return list(maintenance.pauses(self.world, self.running.deployment, self._now).values())

    @property
    def due(self) -> float | None:
        """When the first machine that is away now has been so for too long, or a pause is over."""
        views = {vertex.node.name: vertex.node for _, vertex in self.of(State.TODO, State.TRANSITION)}
        nodes = [view.record for view in views.values() if view.record is not None]
        ends = [self._patient_until(node) for node in nodes if not (node.alive or node.virtual)]
        ends += [pause.until for pause in self.pauses if pause.until is not None]
        return min((end for end in ends if end > self._now), default=None)

    def exceeded(self) -> str | None:
        """The first group of which more nodes failed than may, in one sentence."""
        for tolerance in self.running.head.tolerances:
            failed = [node for node in tolerance.nodes if node in self.failures]
            if len(failed) > tolerance.most:
                nodes = ", ".join(failed[:3]) + (", ..." if len(failed) > 3 else "")
                many = counted(len(failed), "node")
                return f"of group {tolerance.group} {many} failed, and {tolerance.most} may: {nodes}"
        return None

    @cached_property
    def tolerated(self) -> frozenset[str]:
        """The nodes that failed and that every tolerance which counts them bears; at least one does."""
        groups = self.running.head.tolerances
        broken = {node for group in groups for node in group.nodes if not self._bears(group)}
        borne = {node for group in groups for node in group.nodes}
        return frozenset(node for node in self.failures if node in borne and node not in broken)

    def _bears(self, tolerance: Tolerance) -> bool:
        return sum(node in self.failures for node in tolerance.nodes) <= tolerance.most

    def bears(self, at: int) -> bool:
        """Whether a vertex goes on without the failed ones that it waits for: decision 072. Only barriers do."""
        plan, bears = self.running.plan, self._definition(at).bears
        if plan.task_of[at] not in plan.barriers or bears is Bears.NONE:
            return False
        missing = [above for above in plan.parents[at] if not self.well(above)]
        there = [above for above in plan.parents[at] if self.well(above) and self._of_relation(above)]
        return all(map(self._borne, missing)) and (bears is Bears.ALL or bool(there))

    def _borne(self, at: int) -> bool:
        """Whether nothing but failures that are tolerated keep it from running."""
        plan = self.running.plan
        node = plan.nodes[plan.node_of[at]]
        if node != VIRTUAL:
            return self.finished[at] and node in self.tolerated
        return self._of_relation(at) and all(self.well(above) or self._borne(above) for above in plan.parents[at])

    def _of_relation(self, at: int) -> bool:
        """Whether it is an instance, or a part of a relation that has too many of them for one barrier."""
        plan = self.running.plan
        part = plan.task_of[at] in plan.barriers and self._definition(at).bears is Bears.SOME
        return part or plan.nodes[plan.node_of[at]] != VIRTUAL

    # -- consequences --

    @cached_property
    def unread(self) -> bool:
        """Whether the record of one of its noderoles cannot be read: the record is waited for."""
        return any(hidden(self.world, self.running, at) for at in range(len(self.vertices)))

    @cached_property
    def finished(self) -> list[bool]:
        """For each vertex, whether it has ended without success."""
        plan, kept = self.running.plan, [False] * len(self.vertices)
        for at in sorted_out(plan.parents):
            vertex = self.vertices[at]
            if hidden(self.world, self.running, at):
                continue
            if vertex is None or vertex.record.state is State.ERROR:
                kept[at] = True
            elif self.sending and vertex.node.name in self.failures:
                kept[at] = vertex.record.state in HELD_BACK  # nothing more begins there, unless retried
            elif vertex.record.state is State.PROPOSED:
                kept[at] = not self.sending
            elif vertex.record.state is State.BLOCKED:
                unsatisfied = [above for above in plan.parents[at] if not self.well(above)]
                kept[at] = bool(unsatisfied) and all(kept[above] for above in unsatisfied)
        return kept

    def well(self, at: int) -> bool:
        """Whether a vertex is satisfied, so that those below need not wait for it."""
        vertex = self.vertices[at]
        return vertex is not None and satisfied(vertex.record)

    def moves(self) -> bool:
        """Whether anything of the run may still begin, or end, by itself, or by its rollout."""
        if self.sending:
            return True
        failed = self.failures
        for _, vertex in self.of(State.TRANSITION, *WAITING):
            match vertex.record.state:
                case State.TRANSITION:
                    return True
                case State.TODO if vertex.node.name not in failed:
                    return True
                case State.BLOCKED if not vertex.waiting:
                    return True  # a transaction must still settle it
        return False

    def causes(self) -> dict[int, str]:
        """The reason for each waiting vertex if it can never run."""
        plan = self.running.plan
        found: dict[int, str] = {}
        for at in sorted_out(plan.parents):
            vertex = self.vertices[at]
            if vertex is None:
                found[at] = GONE
                continue
            state = vertex.record.state
            if state is State.ERROR:
                found[at] = f"{vertex.name} failed"
            elif state is State.PROPOSED:
                found[at] = (vertex.record.reason or self.unsent or "it was taken back").removeprefix("not run: ")
            elif state in WAITING:
                above = next((found[each] for each in plan.parents[at] if each in found), None)
                found[at] = self.failures.get(vertex.node.name) or above or "a task that it waits for does not begin"
        return found

    def _definition(self, at: int) -> Definition:
        plan = self.running.plan
        return self.running.definitions[plan.tasks[plan.task_of[at]]]


def vertex_of(world: World, running: LoadedTaskRun, at: int) -> Vertex | None:
    """The noderole that carries a vertex of the plan out; None if it is gone, or a later run's."""
    vertex = world.vertex(running.noderole(at))
    return vertex if vertex is not None and vertex.record.task_run == running.id else None


def hidden(world: World, running: LoadedTaskRun, at: int) -> bool:
    """Whether the record of the noderole that carries a vertex of the plan out cannot be read."""
    return bool(world.unreadable) and world.hides(running.noderole(at))
