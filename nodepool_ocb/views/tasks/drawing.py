"""Task lists drawn: which task waits for which, as JSON, for Graphviz and for Mermaid, with the colours that Fuel's had.

A drawing is made of a list, one corner a task, or of a plan, one corner an instance. Filters give another drawing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents.counting import some
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.tasks import patterns
from nodepool_ocb.tasks.plan import VIRTUAL, TaskPlan
from nodepool_ocb.tasks.selection import Board, Selection, unselected
from nodepool_ocb.tasks.tasklist import Task, TaskKind, TaskList
from nodepool_ocb.views.graphs import graphviz
from nodepool_ocb.views.graphs.graphviz import Box, GraphPicture
from nodepool_ocb.views.tasks.histories import ORDER
from nodepool_ocb.views.tasks.plans import BARRIER, kinds, topological
from nodepool_ocb.views.view import View

NAME: Final = "tasks"
UNKNOWN: Final = "instances"  # that are in no run
MOST_EDGES: Final = 200_000  # of a drawing from which corners were taken
MOST_REDUCED: Final = 20_000  # corners: the ancestors of each are held in memory

#: Type → fill.
TYPES: Final = {
    TaskKind.GROUP: "lightskyblue",
    TaskKind.STAGE: "red",
    TaskKind.SKIPPED: "gray95",
    BARRIER: "white",
}
TASK: Final = "yellowgreen"  # the fill of every other type

#: State → fill; a state is also written out.
STATES: Final = {
    "pending": "white",
    "queued": "yellow",
    "running": "blue",
    "successful": "green",
    "failed": "red",
    "skipped": "gray95",
    "not run": "orange",
}
CSS: Final = {"gray95": "#f2f2f2"}  # colours that Mermaid has under another name than Graphviz


class TaskVertex(View, frozen=True, kw_only=True):
    """A task, or an instance of one."""

    name: str  # TASK, or TASK@NODE
    task: str
    node: str | None = None
    type: str
    state: str | None = None  # in the newest run
    skipped: str | None = None  # why it is not run


class TaskGraph(View, frozen=True, kw_only=True):
    """A drawing as JSON; edges are (before, after)."""

    nodes: tuple[TaskVertex, ...]
    edges: tuple[tuple[str, str], ...]


class Drawing(msgspec.Struct, frozen=True):
    """Corners, and for each the positions of those just before it."""

    corners: Sequence[TaskVertex]
    parents: Sequence[frozenset[int]]

    def edges(self) -> Iterator[tuple[int, int]]:
        """Each as (before, after)."""
        return ((parent, each) for each, above in enumerate(self.parents) for parent in sorted(above))


# -- made --


def of_list(tasks: TaskList) -> Drawing:
    """A corner for each task. The edges are the relations that the list names, independent of nodes."""
    position = {task.id: number for number, task in enumerate(tasks.tasks)}
    parents: list[set[int]] = [set() for _ in position]
    for task in tasks.tasks:
        own = position[task.id]
        for name, before in _relations(task):
            for other in (position[id] for id in patterns.matching(name, position, tasks.compat_prefix)):
                first, then = (other, own) if before else (own, other)
                if other != own:
                    parents[then].add(first)
    corners = [TaskVertex(name=task.id, task=task.id, type=str(task.kind)) for task in tasks.tasks]
    return Drawing(corners, [frozenset(each) for each in parents])


def _relations(task: Task) -> Iterator[tuple[str, bool]]:
    """Names of other tasks, each with whether it is before this one. A group is done when its tasks are."""
    yield from ((name, True) for name in (*task.requires, *task.tasks))
    yield from ((relation.name, True) for relation in task.cross_depends)
    yield from ((name, False) for name in task.required_for)
    yield from ((relation.name, False) for relation in task.cross_depended_by)


def of_plan(plan: TaskPlan, tasks: TaskList, states: Mapping[str, str] = {}) -> Drawing:
    """A corner for each instance; ``states`` are those of the newest run, by name."""
    types = kinds(plan, tasks)
    corners = [_instance(plan, vertex, types, states) for vertex in range(len(plan))]
    return Drawing(corners, [frozenset(each) for each in plan.parents])


def _instance(plan: TaskPlan, vertex: int, types: Mapping[str, str], states: Mapping[str, str]) -> TaskVertex:
    name, task = plan.name(vertex), plan.tasks[plan.task_of[vertex]]
    node = plan.nodes[plan.node_of[vertex]]
    return TaskVertex(
        name=name,
        task=task,
        node=None if node == VIRTUAL else node,
        type=types[task],
        state=states.get(name),
        skipped=plan.skipped.get(vertex),
    )


# -- filters --


def marked(drawing: Drawing, selection: Selection) -> Drawing:
    """The drawing of a list with the tasks that are not selected marked as skipped; raises Invalid for unknown names."""
    board = Board(
        parents=[sorted(above) for above in drawing.parents],
        order=_ordered(drawing),
        node_of=[0] * len(drawing.corners),
        tasks={corner.task: [number] for number, corner in enumerate(drawing.corners)},
        groups={},
        nodes=[],
    )
    why = unselected(selection, board)
    corners = [replace(corner, skipped=why.get(number)) for number, corner in enumerate(drawing.corners)]
    return Drawing(corners, drawing.parents)


def above(drawing: Drawing, task: str) -> Drawing:
    """The task and all that comes before it; raises NotFound."""
    queue = [number for number, corner in enumerate(drawing.corners) if corner.task == task]
    if not queue:
        known = {corner.task for corner in drawing.corners}
        near = did_you_mean(task, known) or f"; it has: {some(sorted(known))}"
        raise NotFound(f"there is no task {task} in this graph{near}")
    kept = set(queue)
    for each in queue:  # grows
        fresh = drawing.parents[each] - kept
        kept |= fresh
        queue += fresh
    return _only(drawing, kept, drawing.parents)


def without(drawing: Drawing, unwanted: Callable[[TaskVertex], bool]) -> Drawing:
    """The drawing without these corners. An edge replaces each path through corners that are taken out.

    Raises Invalid if the result would have more than MOST_EDGES edges.
    """
    kept = {number for number, corner in enumerate(drawing.corners) if not unwanted(corner)}
    parents: list[frozenset[int]] = [frozenset()] * len(drawing.corners)
    edges = 0
    for each in _ordered(drawing):
        direct = drawing.parents[each] & kept
        parents[each] = direct.union(*(parents[parent] for parent in drawing.parents[each] - kept))
        edges += len(parents[each])
        if edges > MOST_EDGES:
            raise Invalid(f"this graph would have more than {MOST_EDGES} edges; draw less, or take less out of it")
    return _only(drawing, kept, parents)


def reduced(drawing: Drawing) -> Drawing:
    """Without the edges that others imply (a transitive reduction); raises Invalid for more than MOST_REDUCED corners."""
    if len(drawing.corners) > MOST_REDUCED:
        raise Invalid(f"this graph has more than {MOST_REDUCED} corners, too many for a reduction; draw less of it")
    reach = [0] * len(drawing.corners)  # a bit for each corner before it
    parents: list[frozenset[int]] = [frozenset()] * len(drawing.corners)
    order = _ordered(drawing)
    place = {each: number for number, each in enumerate(order)}
    for each in order:
        needed = []
        for parent in sorted(drawing.parents[each], key=place.__getitem__, reverse=True):
            if not reach[each] >> parent & 1:
                needed.append(parent)
                reach[each] |= reach[parent] | 1 << parent
        parents[each] = frozenset(needed)
    return Drawing(drawing.corners, parents)


def _ordered(drawing: Drawing) -> list[int]:
    order = topological(drawing.parents)
    if len(order) < len(drawing.corners):
        left = sorted({drawing.corners[each].name for each in set(range(len(drawing.corners))).difference(order)})
        raise Invalid(f"there is a circle at or above these: {some(left)}; take one of their relations away")
    return order


def _only(drawing: Drawing, kept: Collection[int], parents: Sequence[frozenset[int]]) -> Drawing:
    order = sorted(kept)
    place = {each: number for number, each in enumerate(order)}
    return Drawing(
        [drawing.corners[each] for each in order],
        [frozenset(place[parent] for parent in parents[each] if parent in place) for each in order],
    )


# -- shown --


def document(drawing: Drawing) -> TaskGraph:
    """The graph as JSON."""
    names = [corner.name for corner in drawing.corners]
    edges = ((names[parent], names[each]) for parent, each in drawing.edges())
    return TaskGraph(nodes=tuple(drawing.corners), edges=tuple(edges))


def fill(corner: TaskVertex) -> str:
    """Its colour: that of its state, else of its type."""
    if corner.state is not None:
        return STATES.get(corner.state, TASK)
    if corner.skipped is not None:
        return TYPES[TaskKind.SKIPPED]
    return TYPES.get(corner.type, TASK)


def label(corner: TaskVertex) -> tuple[str, ...]:
    """The lines of a corner: the task, its type, and its state."""
    stands = corner.state or ("skipped" if corner.skipped is not None else None)
    return tuple(each for each in (corner.task, corner.type, stands) if each)


def picture(drawing: Drawing) -> GraphPicture:
    """The picture for Graphviz."""
    names = [corner.name for corner in drawing.corners]
    return GraphPicture(
        [_box(each) for each in drawing.corners], [(names[parent], names[to]) for parent, to in drawing.edges()]
    )


def collapsed(drawing: Drawing) -> GraphPicture:
    """For Graphviz: a box for each task, with how many of its instances are in which state."""
    return graphviz.collapsed(picture(drawing), (*ORDER, UNKNOWN))


def dot(drawing: Drawing) -> str:
    """For Graphviz: one cluster a node."""
    return graphviz.dot(NAME, picture(drawing))


def _box(corner: TaskVertex) -> Box:
    task, *words = label(corner)
    state = corner.state or ("skipped" if corner.skipped is not None else UNKNOWN)
    return Box(corner.name, task, tuple(words), state, fill(corner), corner.node)


def mermaid(drawing: Drawing) -> str:
    """For Mermaid's flowcharts, as Markdown viewers draw them."""
    numbers = {corner.name: f"n{number}" for number, corner in enumerate(drawing.corners)}
    lines = ["flowchart LR"]
    for node, corners in _by_node(drawing):
        if node is not None:
            lines.append(f"  subgraph {json.dumps(node)}")
        for corner in corners:
            text = "<br/>".join(label(corner)).replace('"', "#quot;")
            lines.append(f'    {numbers[corner.name]}["{text}"]:::{_class(fill(corner))}')
        if node is not None:
            lines.append("  end")
    names = [numbers[corner.name] for corner in drawing.corners]
    lines += [f"  {names[parent]} --> {names[each]}" for parent, each in drawing.edges()]
    fills = dict.fromkeys(map(fill, drawing.corners))
    return "\n".join([*lines, *(f"  classDef {_class(each)} fill:{CSS.get(each, each)}" for each in fills)])


def _class(colour: str) -> str:
    return f"{colour}s"  # `end` and the like are words of Mermaid's


def _by_node(drawing: Drawing) -> Iterable[tuple[str | None, list[TaskVertex]]]:
    found: dict[str | None, list[TaskVertex]] = {}
    for corner in drawing.corners:
        found.setdefault(corner.node, []).append(corner)
    return found.items()
