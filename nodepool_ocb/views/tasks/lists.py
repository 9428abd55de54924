"""Task lists before they run: the result of a check, the stored lists, and one task with its neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from nodepool_ocb.documents.counting import some
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.tasklist import Relation, Task, TaskList
from nodepool_ocb.views.view import View


class CheckedTask(View, frozen=True, kw_only=True):
    """A task of a list that was checked."""

    id: str
    type: str
    roles: tuple[str, ...]
    place: str  # FILE:LINE


class CheckedList(View, frozen=True, kw_only=True):
    """The result of a check of a list."""

    tasks: tuple[CheckedTask, ...]
    types: dict[str, int]  # type → how many
    warnings: tuple[str, ...]
    problems: tuple[str, ...]


class TypeRow(View, frozen=True, kw_only=True):
    """The number of tasks of a type in a list."""

    type: str
    tasks: int


class ListRow(View, frozen=True, kw_only=True):
    """A list that is stored."""

    kind: str  # "release" or "deployment"
    name: str
    base: str | None  # of a deployment: its release
    tasks: int
    files: int
    settings: bool  # of a deployment: whether it has any
    since: float | None
    by: str | None


class TaskDocument(View, frozen=True, kw_only=True):
    """A task as it is run, after the layers of its list are merged."""

    id: str
    type: str
    version: str
    origin: str  # "release 9.0"
    place: str  # FILE:LINE
    roles: tuple[str, ...]
    condition: str | bool
    parameters: dict[str, Json]
    after: tuple[str, ...]  # the tasks just before it
    before: tuple[str, ...]
    cross_depends: tuple[str, ...]
    cross_depended_by: tuple[str, ...]
    tasks: tuple[str, ...]
    stage: str | None
    strategy: str | None
    fault_tolerance: str | None
    fail_on_error: bool
    reexecute_on: tuple[str, ...]


def checked(tasks: TaskList, warnings: Sequence[str] = (), problems: Sequence[str] = ()) -> CheckedList:
    """The tasks in the order of their files."""
    rows = (CheckedTask(id=each.id, type=str(each.kind), roles=each.roles, place=each.place) for each in tasks.tasks)
    types = Counter(str(each.kind) for each in tasks.tasks)
    return CheckedList(
        tasks=tuple(rows), types=dict(sorted(types.items())), warnings=tuple(warnings), problems=tuple(problems)
    )


def refused(problems: Sequence[str]) -> CheckedList:
    """The result for a list that cannot be read."""
    return checked(TaskList(), (), problems)


def types(found: CheckedList) -> list[TypeRow]:
    """The number of tasks of each type, for a table."""
    return [TypeRow(type=type, tasks=count) for type, count in found.types.items()]


def task(tasks: TaskList, id: str) -> TaskDocument:
    """One task of a list with its neighbours; raises NotFound."""
    from nodepool_ocb.views.tasks import drawing  # here, so that a start of the command does not load it

    each = tasks.by_id.get(id)
    if each is None:
        near = did_you_mean(id, tasks.by_id) or f"; it has: {some(list(tasks.by_id)) or 'none'}"
        raise NotFound(f"there is no task {id} in this list{near}")
    graph = drawing.document(drawing.of_list(tasks))
    return TaskDocument(
        id=each.id,
        type=str(each.kind),
        version=".".join(map(str, each.version)),
        origin=each.origin,
        place=each.place,
        roles=each.roles,
        condition=each.condition if isinstance(each.condition, bool) else each.condition.text,
        parameters=dict(each.parameters),
        after=tuple(before for before, then in graph.edges if then == id),
        before=tuple(then for before, then in graph.edges if before == id),
        cross_depends=tuple(map(relation, each.cross_depends)),
        cross_depended_by=tuple(map(relation, each.cross_depended_by)),
        **_of_groups(each),
    )


def _of_groups(each: Task) -> dict[str, Any]:
    return {
        "tasks": each.tasks,
        "stage": each.stage,
        "strategy": _strategy(each),
        "fault_tolerance": each.fault_tolerance,
        "fail_on_error": each.fail_on_error,
        "reexecute_on": each.reexecute_on,
    }


def _strategy(each: Task) -> str | None:
    if each.strategy is None:
        return None
    amount = each.strategy.amount
    shown = amount if isinstance(amount, int | None) else amount.text
    return str(each.strategy.order) if shown is None else f"{each.strategy.order}, {shown} at a time"


def relation(each: Relation) -> str:
    """A relation between nodes in words.

    >>> relation(Relation(name="hiera", roles=("self", "/cinder.*/")))
    'hiera on self, /cinder.*/'
    """
    on = "no node" if each.roles is None else ", ".join(each.roles)
    return f"{each.name} on {on}" + (", any" if each.policy == "any" else "")
