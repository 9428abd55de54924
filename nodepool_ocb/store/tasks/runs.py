"""Runs of tasks in ZooKeeper: read, stopped by people, driven by an annealer. ``beginning`` begins them.

``tasks/runs/<deployment>`` (``TaskRunPointer``) names the newest run and whether it is over, as for rollouts: its
version orders all writers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid, NotFound, Stale
from nodepool_ocb.model import executions, limits, paths
from nodepool_ocb.model.executions import TASK_RUN
from nodepool_ocb.model.records import (
    Change,
    Check,
    Create,
    Json,
    LockOwner,
    Run,
    Set,
    TaskRunPointer,
)
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven.executions import TASK_RUNS
from nodepool_ocb.store.driven.pointers import ATTEMPTS, pause
from nodepool_ocb.store.locks import holders
from nodepool_ocb.tasks.runs import history, records, roles
from nodepool_ocb.tasks.runs.history import HistoryRow
from nodepool_ocb.tasks.runs.records import Definition, LoadedTaskRun, Rows, Table, TaskRun
from nodepool_ocb.tasks.runs.status import RunStatus


class ListedTaskRun(NamedTuple):
    """A run among others."""

    deployment: str
    id: str
    head: TaskRun


Versions: TypeAlias = executions.Versions[TaskRunPointer]


# -- reading --


def pointer(session: Session, deployment: str) -> tuple[TaskRunPointer, int]:
    """The deployment's own record; as if nothing were there, and version -1, before its first run."""
    return TASK_RUNS.pointer(session, deployment)


def preparer(session: Session, deployment: str, known: TaskRunPointer) -> LockOwner | None:
    """The process that prepares a run; None if there is none, or if its preparation broke off."""
    if known.preparing is None:
        return None
    return holders(session, [paths.task_run_lock(deployment, known.preparing)])[0]


def read(session: Session, deployment: str, identity: str) -> tuple[LoadedTaskRun, Versions] | None:
    """A run with its plan, None where it does not exist or was never begun. Raises Invalid where a part of it is broken."""
    for attempt in range(ATTEMPTS):
        known, version = pointer(session, deployment)
        found = TASK_RUNS.head(session, deployment, identity)
        if found is None:
            return None
        znode, head = found
        tables = [
            _rows(session, deployment, identity, head, table)
            for table in (Table.DEFINITIONS, Table.PLAN, Table.SKIPPED)
        ]
        if None not in tables and pointer(session, deployment)[1] == version:
            running = _running(deployment, identity, head, *tables)
            return running, Versions(known, version, {"": znode.version})
        pause(attempt)
    raise Stale(f"{paths.task_runs(deployment)} is changed on and on; read it again", paths.task_runs(deployment))


def _running(deployment: str, identity: str, head: TaskRun, *tables: Sequence[Any] | None) -> LoadedTaskRun:
    defined, plan, skipped = (table or () for table in tables)
    try:
        definitions = {each.id: each for each in msgspec.convert(list(defined), list[Definition])}
        barriers = [each.id for each in definitions.values() if each.kind == roles.BARRIER]
        passed = msgspec.convert(list(skipped), list[tuple[str, str, str]])
        return LoadedTaskRun(deployment, identity, head, records.plan_of(plan, barriers), passed, definitions)
    except (msgspec.ValidationError, TypeError, ValueError, KeyError) as broken:
        whole = paths.task_run(deployment, identity)
        advice = f"begin another run: nodepool-ocb tasks run --deployment {deployment}"
        raise Invalid(f"{whole}: a table of it is broken: {broken}; {advice}") from broken


def table(session: Session, deployment: str, identity: str, which: Table) -> list[Json]:
    """The rows of a table; none where it is not there. Raises NotFound where the run is not."""
    _, head = _head(session, deployment, identity)
    return _rows(session, deployment, identity, head, which) or []


def _head(session: Session, deployment: str, identity: str) -> tuple[Znode, TaskRun]:
    found = TASK_RUNS.head(session, deployment, identity)
    if found is None:
        raise NotFound(f"there is no tasks run {deployment}/{identity}; see: nodepool-ocb tasks runs {deployment}")
    return found


def _rows(session: Session, deployment: str, identity: str, head: TaskRun, which: Table) -> list[Json] | None:
    """None where a part is missing: it is being deleted."""
    wanted = [paths.task_run(deployment, identity, f"{which}/{part:04}") for part in range(head.parts.get(which, 0))]
    znodes = session.get_many(wanted)
    if None in znodes:
        return None
    return [row for znode in znodes if znode is not None for row in codec.decode(Rows, znode).rows]


def list_(session: Session, deployments: Iterable[str] | None = None) -> list[ListedTaskRun]:
    """Every run that was begun, by deployment, the oldest first; records that cannot be decoded are left out."""
    return [ListedTaskRun(*each) for each in TASK_RUNS.listed(session, deployments)]


def under_way(session: Session) -> list[tuple[str, str]]:
    """The runs that are driven or prepared, each by deployment and id; pointers that cannot be read are left out."""
    names = sorted(session.children(paths.TASK_RUNS) or ())
    found = []
    for name, znode in zip(names, session.get_many([paths.task_runs(each) for each in names]), strict=True):
        with contextlib.suppress(Invalid):
            known = codec.decode(TaskRunPointer, znode) if znode is not None else TaskRunPointer()
            ids = [known.preparing, None if known.over else known.newest]
            found += [(name, identity) for identity in ids if identity is not None]
    return found


def rows(session: Session, world: World, running: LoadedTaskRun) -> list[HistoryRow]:
    """The history of a run: of one that is over as it was written, else as its noderoles are now in this world."""
    if running.head.over:
        return [history.of_json(row) for row in table(session, running.deployment, running.id, Table.HISTORY)]
    look = RunStatus(world, running, session.now())
    return list(history.rows(look, ended_runs(session, history.wanted(look))))


def ended_runs(session: Session, wanted: Sequence[str]) -> dict[str, Run]:
    """Records of runs, by their paths, as far as they can be read."""
    found: dict[str, Run] = {}
    for path, znode in zip(wanted, session.get_many(list(wanted)), strict=True):
        if znode is not None:
            with contextlib.suppress(Invalid):
                found[path] = codec.decode(Run, znode)
    return found


# -- the writes of a driver --


def heads(
    deployment: str, identity: str, before: TaskRun, after: TaskRun, versions: Versions, now: float
) -> list[Change]:
    """The transaction of a driver: a check of the versions that it knows, and the head if it changed."""
    parts = {"": after} if after != before else {}
    return TASK_RUN.driven(deployment, identity, parts, after.over, versions, now)


def keep_history(session: Session, running: LoadedTaskRun, found: Sequence[HistoryRow], version: int) -> int:
    """Write the history of a run that ends; gives how many parts it has. ``version``: of the pointer, which must stand."""
    path = paths.task_run(running.deployment, running.id)
    there = session.children(f"{path}/{Table.HISTORY}")
    guard = Check(paths.task_runs(running.deployment), version)
    if there is None:
        session.commit([guard, Create(f"{path}/{Table.HISTORY}")])
    parts = list(records.parts(map(history.to_json, found)))
    old = session.get_many([f"{path}/{Table.HISTORY}/{at:04}" for at in range(len(parts))])
    changes = [
        Create(f"{path}/{Table.HISTORY}/{at:04}", part) if znode is None else Set(znode.path, part, znode.version)
        for at, (part, znode) in enumerate(zip(parts, old, strict=True))
    ]
    for transaction in limits.parts(limits.singly(changes)):
        session.commit([guard, *transaction])
    return len(parts)
