"""The outcome of each task of a run on each node: from its noderoles and their runs, and later from its table. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json, Run, State
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, Outcome, TaskRun, TaskRunState
from nodepool_ocb.tasks.runs.states import TaskRunEvent, task_run_after
from nodepool_ocb.tasks.runs.status import GONE, RunStatus


class HistoryRow(msgspec.Struct, frozen=True, array_like=True):
    """A task on a node. ``outcome``: of Outcome; before that "pending", "queued" or "running". Times are Unix seconds."""

    task: str
    node: str  # "" for stages
    outcome: str
    queued: float | None = None  # when nothing was left to wait for but an annealer
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    reason: str | None = None
    log: str | None = None  # HOST:FILE
    attempts: int = 0


_OPEN: Mapping[State, str] = {
    State.PROPOSED: "pending",
    State.BLOCKED: "pending",
    State.TODO: "queued",
    State.TRANSITION: "running",
}


def wanted(look: RunStatus) -> list[str]:
    """The paths of the records of runs that the history needs, each once."""
    found = (_run(vertex) for vertex in look.vertices if vertex is not None)
    return [path for path in found if path is not None]


def _run(vertex: Vertex) -> str | None:
    """The path of the record of its newest run, where that has ended."""
    record = vertex.record
    if record.run is None or record.state not in (State.ACTIVE, State.ERROR):
        return None
    return paths.run(vertex.role, vertex.node.name, record.run)


def rows(look: RunStatus, runs: Mapping[str, Run]) -> Iterator[HistoryRow]:
    """Every task on every node, those that were skipped among them; ``runs``: by path, as far as they are there."""
    running = look.running
    for at, vertex in enumerate(look.vertices):
        task, node = running.plan.tasks[running.plan.task_of[at]], running.plan.nodes[running.plan.node_of[at]]
        if vertex is None:
            yield HistoryRow(task, node, Outcome.NOT_RUN, reason=GONE)
        else:
            yield _row(task, node, vertex, runs, running.head, look.unsent)
    yield from (HistoryRow(task, node, Outcome.SKIPPED, reason=why) for task, node, why in running.skipped)


def _row(
    task: str, node: str, vertex: Vertex, runs: Mapping[str, Run], head: TaskRun, unsent: str | None
) -> HistoryRow:
    record = vertex.record
    kept = record.reason or unsent
    run = runs.get(_run(vertex) or "")
    row = HistoryRow(task, node, "", attempts=record.attempt)
    if run is not None:
        row = replace(
            row,
            queued=run.queued,
            started=run.started,
            ended=run.ended,
            exit_code=run.exit_code,
            reason=run.reason,
            log=run.log,
        )
    match record.state:
        case State.ACTIVE if run is not None and run.outcome == "failed":
            return replace(row, outcome=Outcome.SKIPPED, reason=record.reason or run.reason)
        case State.ACTIVE:
            return replace(row, outcome=Outcome.SUCCESSFUL)
        case State.ERROR:
            return replace(row, outcome=Outcome.FAILED, reason=record.reason or row.reason)
        case State.PROPOSED if kept is not None and head.state is not TaskRunState.COMMITTING:
            return replace(row, outcome=Outcome.NOT_RUN, reason=kept.removeprefix("not run: "))
        case State.PROPOSED if head.state in (TaskRunState.STOPPING, TaskRunState.ENDING):
            return replace(row, outcome=Outcome.NOT_RUN, reason=head.reason or "nothing committed it")
        case State.TODO | State.TRANSITION:
            since = record.since if record.state is State.TODO else None
            started = record.since if record.state is State.TRANSITION else None
            return replace(row, outcome=_OPEN[record.state], queued=since, started=started, reason=record.reason)
    return replace(row, outcome=_OPEN[record.state])


def ended(running: LoadedTaskRun, look: RunStatus, history: Sequence[HistoryRow], now: float) -> TaskRun:
    """The head of a run of which this is the history."""
    barriers = {running.plan.tasks[at] for at in running.plan.barriers}
    counts = Counter(row.outcome for row in history if row.task not in barriers)
    head = running.head
    bad = [row for row in history if row.outcome in (Outcome.FAILED, Outcome.NOT_RUN)]
    borne = [row for row in bad if row.node in look.tolerated]
    if head.stop and bad:
        event, reason = TaskRunEvent.HALT, head.reason
    elif len(bad) > len(borne):
        event, reason = TaskRunEvent.FAIL, head.reason or _failed(bad)
    else:
        nodes = sorted({row.node for row in borne})
        event = TaskRunEvent.SUCCEED
        reason = f"failed, as their groups tolerate: {', '.join(nodes)}" if nodes else None
    return task_run_after(head, event, reason=reason, ended=now, counts=dict(counts))


def _failed(bad: Iterable[HistoryRow]) -> str:
    failed = [row for row in bad if row.outcome == Outcome.FAILED]
    if not failed:
        return next(
            (f"{row.task}@{row.node} was not run: {row.reason}" for row in bad if row.node), "a stage was not passed"
        )
    more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    return f"{failed[0].task}@{failed[0].node} failed: {failed[0].reason or 'no reason was recorded'}{more}"


def to_json(row: HistoryRow) -> Json:
    return msgspec.to_builtins(row)


def of_json(raw: Json) -> HistoryRow:
    return msgspec.convert(raw, HistoryRow)
