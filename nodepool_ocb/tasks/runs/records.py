"""A run of tasks as ZooKeeper holds it, and as one value.

::

    tasks/runs/<deployment>/<id>                  TaskRun: its state
    tasks/runs/<deployment>/<id>/<table>/<part>   Rows: the tables below, as many rows in each part as fit
    tasks/runs/<deployment>/<id>/facts/<fqdn>     the facts of a node; those of all nodes in "common"

The tables and their rows: see ``Table``. A run's own znode is empty until its parts are all there and its noderoles are bound.
A run with an empty one was never begun. Only the head and ``history`` change after they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from nodepool_ocb.model.ranges import Count, Id, Moment, Name, Times
from nodepool_ocb.model.records import Json, Record
from nodepool_ocb.tasks.plan import VIRTUAL, Bears, TaskPlan

PART_BYTES: Final = 180 * 1024  # of rows


class TaskRunState(StrEnum):
    """How a run of tasks fares."""

    COMMITTING = "committing"  # its noderoles are being committed
    RUNNING = "running"  # annealers work through them
    STOPPING = "stopping"  # no further task begins; running tasks end, or are ended
    ENDING = "ending"  # no task moves any more: tasks that did not run are taken back, and the history is written
    SUCCESSFUL = "successful"  # over: the tasks that were to run succeeded, or their failures are tolerated
    FAILED = "failed"  # over: a task failed, and no tolerance allowed it
    STOPPED = "stopped"  # over: a person stopped it before its end


OVER: Final = frozenset({TaskRunState.SUCCESSFUL, TaskRunState.FAILED, TaskRunState.STOPPED})


class Outcome(StrEnum):
    """How a task ends on a node: in exactly one of these."""

    SUCCESSFUL = "successful"  # it ran, and did well
    FAILED = "failed"  # it ran, and did not
    SKIPPED = "skipped"  # it was not to run: see the reason
    NOT_RUN = "not run"  # something kept it: see the reason


class Tolerance(msgspec.Struct, frozen=True):
    """How many nodes of a group may fail (``fault_tolerance``)."""

    group: str
    most: Times  # so many
    nodes: tuple[str, ...]


class TaskRun(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``tasks/runs/<deployment>/<id>``."""

    state: TaskRunState
    virtual: str  # the name of the virtual node that has its stages and barriers
    started: Moment = 0.0
    ended: Moment | None = None
    by: str | None = None  # the person that began it
    reason: str | None = None  # the reason for its state, in one sentence
    vertices: Count = 0  # instances that are to run; no barriers
    skipped: Count = 0
    nodes: Count = 0
    counts: Mapping[str, Count] = {}  # Outcome → how many, when it is over
    parts: Mapping[str, Times] = {}  # table → how many parts
    stop: str | None = None  # "asked": running tasks may end; "now": they are ended
    stopped_by: str | None = None
    noop: bool = False
    held: bool = False  # a rollout commits its tasks
    rollout: Id | None = None  # the rollout that sends it; None: that has not begun
    again: str | None = None  # of a retry: the id of the run that it continues
    what: str | None = None  # the selection, in words
    tolerances: tuple[Tolerance, ...] = ()
    patience_seconds: Moment = 900.0  # without an answer from a node; then its dependants are not run
    away: tuple[str, ...] = ()  # the nodes that did not for so long: they failed, even if they answer again
    aside: str | None = None  # the pause of its deployment: author, end and reason
    resumed: Moment = 0.0  # when that was over last: the patience with nodes counts from here

    @property
    def over(self) -> bool:
        return self.state in OVER


class Rows(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """A part of a table."""

    rows: tuple[Json, ...] = ()


class Table(StrEnum):
    """The tables of a run, by rows."""

    PLAN = "plan"  # [task, node, rank, [positions of its parents]], in the order of the vertices; node "" is the virtual one
    SKIPPED = "skipped"  # [task, node, why]
    DEFINITIONS = "definitions"  # of each task and barrier: see ``Definition``
    LIST = "list"  # [path, text] of each file of the task list, with its origin
    HISTORY = "history"  # see history.Row; written when the run ends


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """The properties of a task that a run needs, beside the role that it became."""

    id: str
    role: Name
    kind: str  # of tasklist.Kind; "barrier"
    fail_on_error: bool = True
    all_done: bool = False  # of a stage: it is passed when all before it have ended, however
    origin: str = ""  # where it comes from: list, file and line
    bears: Bears = Bears.SOME  # of a barrier: which tolerated failures it lets pass


class LoadedTaskRun(msgspec.Struct, frozen=True):
    """A run, read whole but for its facts, list and history."""

    deployment: str
    id: str
    head: TaskRun
    plan: TaskPlan  # without vertices that are skipped
    skipped: Sequence[tuple[str, str, str]]  # task, node, why
    definitions: Mapping[str, Definition]  # by task

    @property
    def name(self) -> str:
        return f"tasks run {self.deployment}/{self.id}"

    def noderole(self, vertex: int) -> str:
        """The noderole that carries the vertex out."""
        plan = self.plan
        role = self.definitions[plan.tasks[plan.task_of[vertex]]].role
        return f"{role}@{plan.nodes[plan.node_of[vertex]] or self.head.virtual}"


def plan_rows(plan: TaskPlan) -> Iterator[Json]:
    """The rows of a plan that has no skipped vertices."""
    for vertex, parents in enumerate(plan.parents):
        node = plan.nodes[plan.node_of[vertex]]
        yield [plan.tasks[plan.task_of[vertex]], node, plan.rank[vertex], list(parents)]


def plan_of(rows: Iterable[Sequence[Json]], barriers: Iterable[str]) -> TaskPlan:
    """The plan that these rows are of; ``barriers``: the names of those among its tasks."""
    tasks: dict[str, int] = {}
    nodes: dict[str, int] = {}
    task_of, node_of, rank, parents = list[int](), list[int](), list[int](), list[tuple[int, ...]]()
    for task, node, weight, above in rows:
        task_of.append(tasks.setdefault(task, len(tasks)))
        node_of.append(nodes.setdefault(node, len(nodes)))
        rank.append(weight)
        parents.append(tuple(above))
    nodes.setdefault(VIRTUAL, len(nodes))
    return TaskPlan(
        nodes=tuple(nodes),
        tasks=tuple(tasks),
        task_of=task_of,
        node_of=node_of,
        rank=rank,
        parents=parents,
        barriers=frozenset(tasks[name] for name in barriers if name in tasks),
    )


def parts(rows: Iterable[Json]) -> Iterator[Rows]:
    """The rows in parts, none of which is too large for a znode; a single row may be as large as that."""
    part, size = list[Json](), 0
    for row in rows:
        length = len(msgspec.json.encode(row)) + 1
        if part and size + length > PART_BYTES:
            yield Rows(rows=tuple(part))
            part, size = [], 0
        part.append(row)
        size += length
    if part:
        yield Rows(rows=tuple(part))
