"""Reads of whole deployments, for a caller with limits by deployments: the status, the graph, causes of errors, rollouts, runs of
task lists, and the journal.

A deployment outside the limits and an absent one answer alike. An entry of the journal is shown if all that it changed was in
these deployments when it was written. A name of an object that is gone, or outside, is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Ambiguous, NotFound
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.operation import Operation, Steps
from nodepool_ocb.operations.reads.rollouts import ReadRolloutDeployments
from nodepool_ocb.views.causes import ErrorCause
from nodepool_ocb.views.graphs.noderoles import Graph
from nodepool_ocb.views.history import placing
from nodepool_ocb.views.history.entries import EntryFilter, EntryRow, place


def _all(answer: Any) -> Any:
    return answer


class NarrowedRead(msgspec.Struct, frozen=True):
    """A narrowed operation, and the function that keeps the part of its answer that may be shown."""

    operation: Operation[Any]
    keep: Callable[[Any], Any] = _all


class Territory(msgspec.Struct, frozen=True):
    """The deployments within the limits, and the world. ``rollouts``: those of the deployments that have rollouts."""

    deployments: frozenset[str]
    world: World
    rollouts: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether an object is within."""
        return place(self.world, name) in self.deployments


def narrowed(operation: Operation[Any], world: World, deployments: frozenset[str]) -> Steps[NarrowedRead]:
    """The operation within the deployments.

    Raises NotFound for a deployment or an object outside or absent, and Ambiguous if several deployments may be meant.
    """
    narrow = NARROWED[type(operation).__name__]
    known = (yield from ReadRolloutDeployments()) if narrow is _rollout else []
    return narrow(operation, Territory(deployments, world, tuple(each for each in known if each in deployments)))


def _listed(key: str) -> Callable[[Any, Territory], NarrowedRead]:
    """Of a list with rows of DEPLOYMENT/ID."""

    def narrow(operation: Any, within: Territory) -> NarrowedRead:
        _require_deployment(operation, within)
        return NarrowedRead(
            operation, lambda rows: [row for row in rows if getattr(row, key).partition("/")[0] in within.deployments]
        )

    return narrow


def _require_deployment(operation: Any, within: Territory) -> None:
    """Raises NotFound for a deployment outside or absent."""
    named = getattr(operation, "deployment", None)
    if named is not None and named not in within.deployments:
        raise unknown("deployment", named, within.deployments)


def _status(operation: Any, within: Territory) -> NarrowedRead:
    return NarrowedRead(operation.of_deployments(within.deployments))


def _graph(operation: Any, within: Territory) -> NarrowedRead:
    """The noderoles within, and the edges among them."""
    _require_deployment(operation, within)
    if operation.around is not None and not within.has(operation.around):
        raise NotFound(f"noderole {operation.around} does not exist")

    def keep(found: Graph) -> Graph:
        nodes = tuple(each for each in found.nodes if each.deployment in within.deployments)
        names = {each.name for each in nodes}
        edges = tuple((parent, child) for parent, child in found.edges if parent in names and child in names)
        return Graph(nodes=nodes, edges=edges)

    return NarrowedRead(operation, keep)


def _causes(operation: Any, within: Territory) -> NarrowedRead:
    """The errors within; the entry before the first one only if it is within, too."""
    _require_deployment(operation, within)
    known = sorted(within.deployments & within.world.deployments.keys())
    limit = f"deployment:{','.join(known)}"
    selector = limit if operation.selector in (None, limit) else f"{limit} ({operation.selector})"

    def keep(found: tuple[ErrorCause, ...]) -> tuple[ErrorCause, ...]:
        rows = found if known else ()
        return tuple(
            row if row.before is None or _is_within(row.before, within) else replace(row, before=None) for row in rows
        )

    return NarrowedRead(replace(operation, selector=selector) if known else operation, keep)


def _rollout(operation: Any, within: Territory) -> NarrowedRead:
    """One rollout, as ``rollouts.finding`` finds it, among those of the deployments."""
    known = within.rollouts
    first, slash, _ = (operation.rollout or "").partition("/")
    bare = bool(first) and not slash and (operation.deployment is not None or first.isdecimal()) and first not in known
    wanted = operation.deployment if bare or not first else first
    if wanted is None and len(known) > 1:
        raise Ambiguous(f"several deployments have rollouts: {', '.join(known)}; name one of them")
    if wanted is None and not known:
        raise NotFound("there is no rollout; to start one: nodepool-ocb rollout start")
    wanted = wanted or known[0]
    if wanted not in known:
        raise unknown("rollout of deployment", wanted, known)
    return NarrowedRead(replace(operation, deployment=wanted))


def _task_run(operation: Any, within: Territory) -> NarrowedRead:
    if operation.run.partition("/")[0] not in within.deployments:
        raise unknown("run of tasks", operation.run, ())
    return NarrowedRead(operation)


def _look(operation: Any, within: Territory) -> NarrowedRead:
    if operation.key.deployment not in within.deployments:
        raise unknown("rollout", str(operation.key), ())
    return NarrowedRead(operation)


def _history(operation: Any, within: Territory) -> NarrowedRead:
    _require_names(operation.names, within)

    def keep(found: Any) -> Any:
        rows = [row for row in found.rows if _is_within(row, within)]
        return replace(found, rows=rows if operation.limit is None else rows[max(0, len(rows) - operation.limit) :])

    return NarrowedRead(replace(operation, limit=None), keep)


def _events(operation: Any, within: Territory) -> NarrowedRead:
    """The choice names no object outside; the stream itself leaves their events out."""
    _require_names(operation.names, within)

    def keep(found: EntryFilter) -> EntryFilter:
        return found if found.meant is None else replace(found, meant=frozenset(filter(within.has, found.meant)))

    return NarrowedRead(operation, keep)


def _require_names(names: tuple[str, ...], within: Territory) -> None:
    """Raises NotFound in the words for a name that is nowhere."""
    for name in names:
        if not within.has(name):
            raise NotFound(f"neither the cluster nor the journal has the name {name}")


def _is_within(row: EntryRow, within: Territory) -> bool:
    found = placing.deployments(row.record)
    return found is not None and found <= within.deployments


#: The operations, by class; each with the function that narrows it.
NARROWED: Final[dict[str, Callable[[Any, Territory], NarrowedRead]]] = {
    "EventsChoose": _events,
    "GraphDraw": _graph,
    "HistoryRead": _history,
    "NoderoleCauses": _causes,
    "RolloutList": _listed("rollout"),
    "RolloutShow": _rollout,
    "RolloutWait": _rollout,
    "RolloutWaitLook": _look,
    "StatusOverview": _status,
    "StatusWithin": _status,
    "TasksHistory": _task_run,
    "TasksRuns": _listed("run"),
}
