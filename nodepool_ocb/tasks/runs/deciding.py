"""The next changes by the driver of a run of tasks: moves of noderoles, and the state of the run. Pure.

- COMMITTING: every noderole is committed, of a held run those of its stages and barriers; then RUNNING.
- RUNNING: a task that may fail is let pass. Nothing more begins on a node with a failed task, or on one that is away for longer
  than the run's patience. A barrier lets failures pass that a tolerance bears, as long as a vertex of its relation or group
  succeeded. More failures end a run that is not held. A stage with ``trigger_rule: all_done`` is passed when all before it have
  ended. When nothing moves any more: ENDING. While its deployment is paused the run says so, and no machine is away for too
  long.
- STOPPING: noderoles that have not begun are taken back, and running ones are waited for, or cancelled. Then ENDING.
- ENDING: noderoles without a run are taken back, with the reason. They get no parents on other nodes any more, so that these
  nodes may be deleted. The history is written; the run is over.

The tasks of a run that is *held* are committed by a rollout, which also decides about nodes that fail. While it sends, tasks
that wait for such nodes are left as they are, for it may retry them. The run lasts as long as the rollout.

All decisions follow from the records, so an annealer that takes over goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine.maintenance import sentence
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model import limits
from nodepool_ocb.model.records import NodeRole, State
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, TaskRun, TaskRunState
from nodepool_ocb.tasks.runs.states import TaskRunEvent, task_run_after
from nodepool_ocb.tasks.runs.status import WAITING, RunStatus, hidden, vertex_of


class NoderoleMove(msgspec.Struct, frozen=True):
    """An event that happens to noderoles, and why."""

    event: Event
    vertices: Sequence[Vertex]
    reason: str | None = None


class TaskRunDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to write; nothing if the records have them already."""

    head: TaskRun
    moves: Sequence[NoderoleMove] = ()
    rewritten: Mapping[Vertex, NodeRole] = {}  # those with fewer parents than before
    due: float | None = None  # when to look again by the passing of time
    record: bool = False  # only the history and the outcome are left to be written
    start: int = 0  # the vertices before it in the plan are committed


def decide(world: World, running: LoadedTaskRun, now: float, start: int = 0) -> TaskRunDecision:
    """The next decision; the same until it is written. ``start``: the vertices before this one in the plan are committed."""
    head = running.head
    if head.state is TaskRunState.COMMITTING:
        return _commit(world, running, start)
    look = RunStatus(world, running, now)
    if (after := _paused(look, now)) != head:
        return TaskRunDecision(head=after, due=look.due)
    match head.state:
        case TaskRunState.RUNNING:
            return _go_on(look)
        case TaskRunState.STOPPING:
            return _stop(look)
        case TaskRunState.ENDING:
            return _end(look)
    return TaskRunDecision(head=head)


def _paused(look: RunStatus, now: float) -> TaskRun:
    """The record with the pause of its deployment; after the pause, with the time of its end."""
    head = look.running.head
    if look.pauses and not head.over:
        return replace(head, aside=sentence(look.pauses[0]))
    return replace(head, aside=None, resumed=now) if head.aside is not None else head


def _commit(world: World, running: LoadedTaskRun, start: int) -> TaskRunDecision:
    head = running.head
    if head.stop:
        return TaskRunDecision(head=task_run_after(head, TaskRunEvent.STOP, reason=_stopped(head)))
    left = list[Vertex]()
    for at in range(start, len(running.plan)):
        vertex = vertex_of(world, running, at)
        if vertex is None or vertex.record.state is not State.PROPOSED:
            continue
        if head.held and vertex.node.name != head.virtual:
            continue
        if not left:
            start = at
        left.append(vertex)
        if len(left) == limits.MOST_CHANGES:
            break
    if left:
        return TaskRunDecision(head=head, moves=[NoderoleMove(Event.COMMIT, left)], start=start)
    if any(hidden(world, running, at) for at in range(len(running.plan))):
        return TaskRunDecision(head=head)  # it may be PROPOSED
    return TaskRunDecision(head=task_run_after(head, TaskRunEvent.COMMIT))


def _go_on(look: RunStatus) -> TaskRunDecision:
    head = look.running.head
    if head.stop:
        return TaskRunDecision(head=task_run_after(head, TaskRunEvent.STOP, reason=_stopped(head)))
    head = replace(head, away=look.away)
    if not head.held and (exceeded := look.exceeded()):
        return TaskRunDecision(head=task_run_after(head, TaskRunEvent.EXCEED, reason=exceeded))
    moves = [*_allowed(look), *(_of_failed_nodes(look) if not look.sending else ())]
    rewritten = _excused(look)
    if not (moves or rewritten or look.unread or look.moves()):
        return TaskRunDecision(head=task_run_after(head, TaskRunEvent.REST))
    return TaskRunDecision(head=head, moves=moves, rewritten=rewritten, due=look.due)


def _allowed(look: RunStatus) -> list[NoderoleMove]:
    return [
        NoderoleMove(Event.ALLOW, [vertex], f"it failed, and may: {vertex.record.reason or 'no reason was recorded'}")
        for vertex in look.allowed
    ]


def _of_failed_nodes(look: RunStatus) -> list[NoderoleMove]:
    found: dict[str, list[Vertex]] = {}
    for _, vertex in look.of(*WAITING) if look.failures else ():
        if why := look.failures.get(vertex.node.name):
            found.setdefault(why, []).append(vertex)
    return [NoderoleMove(Event.PROPOSE, vertices, f"not run: {why}") for why, vertices in found.items()]


def _excused(look: RunStatus) -> dict[Vertex, NodeRole]:
    """Barriers that bear failures, and vertices that wait only for ended ones, without these parents."""
    found: dict[Vertex, NodeRole] = {}
    running = look.running
    if not look.failures:
        return found
    for at, vertex in look.of(State.BLOCKED):
        unsatisfied = [above for above in running.plan.parents[at] if not look.well(above)]
        all_done = running.definitions[running.plan.tasks[running.plan.task_of[at]]].all_done
        if unsatisfied and all(look.finished[above] for above in unsatisfied) and (all_done or look.bears(at)):
            gone = {running.noderole(above) for above in unsatisfied}
            named = tuple(name for name in vertex.record.parents if name not in gone)
            if named != vertex.record.parents:
                found[vertex] = replace(vertex.record, parents=named)
    return found


def _stop(look: RunStatus) -> TaskRunDecision:
    head = look.running.head
    moves = list[NoderoleMove]()
    if waiting := [vertex for _, vertex in look.of(*WAITING)]:
        moves.append(NoderoleMove(Event.PROPOSE, waiting, f"not run: {head.reason or 'the run was stopped'}"))
    under_way = [vertex for _, vertex in look.of(State.TRANSITION)]
    if head.stop == "now" and (ended := [v for v in under_way if v.record.cancel_reason is None]):
        moves.append(NoderoleMove(Event.CANCEL, ended, _stopped(head)))
    if moves or look.unread or any(vertex.node.name not in look.failures for vertex in under_way):
        return TaskRunDecision(head=head, moves=moves, due=look.due)
    return TaskRunDecision(head=task_run_after(head, TaskRunEvent.REST))


def _end(look: RunStatus) -> TaskRunDecision:
    """Take back the noderoles that wait. A run on a machine that is away is left to the annealer that takes it over."""
    found: dict[str, list[Vertex]] = {}
    causes = look.causes()
    for at, vertex in look.of(*WAITING):
        found.setdefault(causes[at], []).append(vertex)
    moves = [NoderoleMove(Event.PROPOSE, vertices, f"not run: {why}") for why, vertices in found.items()]
    parted = _parted(look) if not moves else {}
    ended = not (moves or parted or look.unread)
    return TaskRunDecision(head=look.running.head, moves=moves, rewritten=parted, record=ended)


def _parted(look: RunStatus) -> dict[Vertex, NodeRole]:
    """The noderoles with parents on other nodes, without these parents: the run is over, and its nodes are independent."""
    found: dict[Vertex, NodeRole] = {}
    for vertex in look.vertices:
        if vertex is None:
            continue
        own = tuple(name for name in vertex.record.parents if name.endswith(f"@{vertex.node.name}"))
        if own != vertex.record.parents:
            found[vertex] = replace(vertex.record, parents=own)
    return found


def _stopped(head: TaskRun) -> str:
    return f"stopped by {head.stopped_by or 'an unknown user'}"
