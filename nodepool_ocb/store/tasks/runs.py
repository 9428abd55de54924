"""Runs of tasks in ZooKeeper: prepared and begun by people, read, stopped, driven by an annealer.

``tasks/runs/<deployment>`` (``TaskRunPointer``) says which run is the newest and whether it is over, as for rollouts: its version
orders all who write. Whoever prepares a run holds its lock, and its id stands there as ``preparing``: from then on nobody else
prepares one, unless that lock is free again. Every transaction of the preparation holds the pointer to the version that was
written then, so of two that prepare only one binds anything. A run that was not prepared to its end is as if it had never
been: nothing of it was committed, and the next one binds the same noderoles anew.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid, NotFound, Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import (
    Change,
    Check,
    Create,
    DeploymentState,
    Json,
    LockOwner,
    Role,
    Run,
    Set,
    Structure,
    TaskRunPointer,
)
from nodepool_ocb.store import tree
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Lock, Locks, holders
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.tasks.runs import history, records, roles
from nodepool_ocb.tasks.runs.history import Row
from nodepool_ocb.tasks.runs.records import Definition, Rows, Running, RunState, Table, TaskRun
from nodepool_ocb.tasks.runs.standing import Look

KEPT: Final = 10  # runs of a deployment
ATTEMPTS: Final = 20
_ID: Final = re.compile(r"[0-9]{10}")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is to begin. Everything but ``head`` and ``running`` is kept with it and read by nobody but people and jigs."""

    running: Running  # its id is not known yet: ""
    roles: Mapping[str, Role]  # name → what the catalogue is to have
    facts: Mapping[str, Mapping[str, Json]]  # node, or "common" → what jigs see as attributes
    texts: Sequence[tuple[str, str]] = ()  # path, text of each file of the task list


class Listed(NamedTuple):
    """A run among others."""

    deployment: str
    id: str
    head: TaskRun


class Versions(msgspec.Struct, frozen=True):
    """What was read of a run: the deployment's pointer, and the versions of both."""

    pointer: TaskRunPointer
    version: int
    head: int


# -- reading --


def pointer(session: Session, deployment: str) -> tuple[TaskRunPointer, int]:
    """The deployment's own record; as if nothing were there, and version -1, before its first run."""
    znode = session.get(paths.task_runs(deployment))
    return (codec.decode(TaskRunPointer, znode), znode.version) if znode is not None else (TaskRunPointer(), -1)


def chosen(session: Session, deployment: str, identity: str | None = None) -> str:
    """The id of a run as people name it (``3``, ``0000000003``; None: the newest). Raises NotFound."""
    if identity is None:
        newest = pointer(session, deployment)[0].newest
        if newest is None:
            raise NotFound(
                f"no tasks were run in deployment {deployment}; nodepool-ocb tasks run --deployment {deployment}"
            )
        return newest
    if not identity.isascii() or not identity.isdecimal() or len(identity) > 10:
        raise NotFound(f"{identity!r} is not the number of a run; see: nodepool-ocb tasks history {deployment}")
    return f"{int(identity):010}"


def read(session: Session, deployment: str, identity: str) -> tuple[Running, Versions] | None:
    """A run with its plan, None where it does not exist or was never begun. Raises Invalid where a part of it is broken."""
    for attempt in range(ATTEMPTS):
        known, version = pointer(session, deployment)
        znode = session.get(paths.task_run(deployment, identity))
        if znode is None or not znode.data:
            return None
        head = codec.decode(TaskRun, znode)
        tables = [
            _rows(session, deployment, identity, head, table)
            for table in (Table.DEFINITIONS, Table.PLAN, Table.SKIPPED)
        ]
        if None not in tables and pointer(session, deployment)[1] == version:
            running = _running(deployment, identity, head, *tables)
            return running, Versions(known, version, znode.version)
        _pause(attempt)
    raise Stale(f"{paths.task_runs(deployment)} is changed on and on; read it again", paths.task_runs(deployment))


def _running(deployment: str, identity: str, head: TaskRun, *tables: Sequence[Any] | None) -> Running:
    defined, plan, skipped = (table or () for table in tables)
    try:
        definitions = {each.id: each for each in msgspec.convert(list(defined), list[Definition])}
        barriers = [each.id for each in definitions.values() if each.kind == roles.BARRIER]
        passed = msgspec.convert(list(skipped), list[tuple[str, str, str]])
        return Running(deployment, identity, head, records.plan_of(plan, barriers), passed, definitions)
    except (msgspec.ValidationError, TypeError, ValueError, KeyError) as broken:
        raise Invalid(f"{paths.task_run(deployment, identity)}: a table of it is broken: {broken}") from broken


def table(session: Session, deployment: str, identity: str, which: Table) -> list[Json]:
    """The rows of a table; none where it is not there. Raises NotFound where the run is not."""
    znode = session.get(paths.task_run(deployment, identity))
    if znode is None or not znode.data:
        raise NotFound(
            f"deployment {deployment} has no run {identity} of tasks; see: nodepool-ocb tasks history {deployment}"
        )
    return _rows(session, deployment, identity, codec.decode(TaskRun, znode), which) or []


def _rows(session: Session, deployment: str, identity: str, head: TaskRun, which: Table) -> list[Json] | None:
    """None where a part is missing: it is being deleted."""
    wanted = [paths.task_run(deployment, identity, f"{which}/{part:04}") for part in range(head.parts.get(which, 0))]
    znodes = session.get_many(wanted)
    if None in znodes:
        return None
    return [row for znode in znodes if znode is not None for row in codec.decode(Rows, znode).rows]


def list_(session: Session, deployments: Iterable[str] | None = None) -> list[Listed]:
    """Every run that was begun, by deployment, the oldest first; what cannot be decoded is left out."""
    names = sorted(deployments if deployments is not None else session.children(paths.TASK_RUNS) or ())
    named = session.children_many([paths.task_runs(name) for name in names])
    found = [
        (name, identity)
        for name, ids in zip(names, named, strict=True)
        for identity in sorted(ids or ())
        if _ID.fullmatch(identity)
    ]
    listed = []
    for key, znode in zip(found, session.get_many([paths.task_run(*each) for each in found]), strict=True):
        if znode is not None and znode.data:
            with contextlib.suppress(Invalid):
                listed.append(Listed(*key, codec.decode(TaskRun, znode)))
    return listed


def rows(session: Session, world: World, running: Running) -> list[Row]:
    """The history of a run: of one that is over as it was written, else as its noderoles are now in this world."""
    if running.head.over:
        return [history.of_json(row) for row in table(session, running.deployment, running.id, Table.HISTORY)]
    look = Look(world, running, session.now())
    return list(history.rows(look, ended_runs(session, history.wanted(look))))


def ended_runs(session: Session, wanted: Sequence[str]) -> dict[str, Run]:
    """Records of runs, by their paths, as far as they can be read."""
    found: dict[str, Run] = {}
    for path, znode in zip(wanted, session.get_many(list(wanted)), strict=True):
        if znode is not None:
            with contextlib.suppress(Invalid):
                found[path] = codec.decode(Run, znode)
    return found


# -- beginning --


def begin(session: Session, wanted: Wanted, me: LockOwner, tell: Callable[[int, int], None] = lambda *_: None) -> str:
    """Write a run, bind its noderoles, and let an annealer drive it; gives its id.

    ``tell``: how many changes are written, and about how many there are. Raises Conflict where another of the deployment is
    under way or being prepared, its deployment is PROPOSED, or a noderole is at work; NotFound where something is gone.
    """
    deployment, by = wanted.running.deployment, wanted.running.head.by
    _open(session, deployment)
    locks = Locks(session)
    identity, lock, version = _reserve(session, locks, deployment, me)
    try:
        running = replace(wanted.running, id=identity, head=replace(wanted.running.head, parts={}))
        head = _write_tables(session, running, wanted)
        guard = Check(paths.task_runs(deployment), version)
        _bind(session, replace(running, head=head), wanted.roles, guard, by, tell)
        _enter(session, deployment, identity, head, version)
    except BaseException:
        with contextlib.suppress(Exception):  # what stays of it goes with the next
            _give_up(session, deployment, identity)
        raise
    finally:
        locks.release(lock)
    with contextlib.suppress(Stale):
        _forget(session, deployment, identity)
    return identity


def _open(session: Session, deployment: str) -> None:
    session.ensure(paths.TASK_RUNS)
    if pointer(session, deployment)[1] >= 0:
        return
    znode = session.get(paths.STRUCTURE)
    if znode is None:
        raise NotFound(f"{paths.STRUCTURE} is not there, and nothing may begin without it: restore it")
    made = TaskRunPointer(id_base=codec.decode(Structure, znode).rollout)
    with contextlib.suppress(Stale):  # another made it
        session.commit(
            [
                Check(paths.deployment(deployment), _committed(session, deployment)),
                Create(paths.task_runs(deployment), made),
            ]
        )


def _committed(session: Session, deployment: str) -> int:
    """The version of the deployment's record."""
    world = tree.load(session)
    stored = world.deployments.get(deployment)
    if stored is None:
        raise NotFound(f"deployment {deployment} does not exist; see: nodepool-ocb deployment list")
    if stored.record.state is DeploymentState.PROPOSED:
        advice = f"nodepool-ocb deployment commit {deployment}"
        raise Conflict(f"deployment {deployment} is PROPOSED, and annealers keep out of it; {advice}")
    return stored.version


def _reserve(session: Session, locks: Locks, deployment: str, me: LockOwner) -> tuple[str, Lock, int]:
    """The next id, its lock, and the version of the pointer that says so."""
    for attempt in range(ATTEMPTS):
        _committed(session, deployment)
        known, version = pointer(session, deployment)
        _refuse_another(session, deployment, known)
        there = [int(name) for name in session.children(paths.task_runs(deployment)) or () if _ID.fullmatch(name)]
        identity = f"{max([known.id_base, int(known.newest or -1), *there]) + 1:010}"
        try:
            session.commit([Create(paths.task_run(deployment, identity))])
            lock = locks.take(paths.task_run_lock(deployment, identity), me)
            if lock is not None:
                session.commit([Set(paths.task_runs(deployment), replace(known, preparing=identity), version)])
                return identity, lock, version + 1
        except Stale:
            if attempt + 1 == ATTEMPTS:
                raise
        _pause(attempt)
    raise Stale(f"others begin runs in deployment {deployment} on and on; try again", paths.task_runs(deployment))


def _refuse_another(session: Session, deployment: str, known: TaskRunPointer) -> None:
    if not known.over and known.newest is not None:
        advice = f"nodepool-ocb tasks wait {deployment}, or: nodepool-ocb tasks stop {deployment}"
        raise Conflict(f"run {known.newest} of tasks of deployment {deployment} is under way; {advice}")
    if known.preparing is not None:
        (holder,) = holders(session, [paths.task_run_lock(deployment, known.preparing)])
        if holder is not None:
            who = f"{holder.daemon} on {holder.host}, process {holder.pid}"
            raise Conflict(
                f"run {known.preparing} of tasks of deployment {deployment} is being prepared by {who}; wait for it"
            )


def _write_tables(session: Session, running: Running, wanted: Wanted) -> TaskRun:
    """All that a run keeps; gives its head."""
    tables: dict[Table, Iterable[Json]] = {
        Table.DEFINITIONS: (msgspec.to_builtins(each) for each in running.definitions.values()),
        Table.PLAN: records.plan_rows(running.plan),
        Table.SKIPPED: (list(each) for each in running.skipped),
        Table.LIST: (list(each) for each in wanted.texts),
    }
    path, counts, changes = paths.task_run(running.deployment, running.id), dict[str, int](), list[Change]()
    for name, each in tables.items():
        parts = list(records.parts(each))
        counts[name] = len(parts)
        changes += [
            Create(f"{path}/{name}"),
            *(Create(f"{path}/{name}/{at:04}", part) for at, part in enumerate(parts)),
        ]
    changes.append(Create(f"{path}/facts"))
    changes += [
        Create(paths.task_facts(running.deployment, running.id, node), dict(facts))
        for node, facts in wanted.facts.items()
    ]
    for transaction in limits.parts(limits.singly(changes)):
        session.commit(transaction)
    return replace(running.head, parts=counts, started=session.now())


def _bind(
    session: Session,
    running: Running,
    wanted: Mapping[str, Role],
    guard: Check,
    by: str | None,
    tell: Callable[[int, int], None],
) -> None:
    """Bind all noderoles; where somebody else writes the same tree, what is there by then is left out."""
    written, refusals = 0, 0
    while True:
        session.sync()
        world = tree.load(session)
        try:
            for transaction in roles.transactions(world, running, wanted, session.now(), by):
                session.commit([guard, *transaction])
                written, refusals = written + len(transaction), 0
                tell(written, 2 * len(running.plan))
        except Stale as stale:
            refusals += 1
            if stale.path == guard.path or refusals == ATTEMPTS:
                raise
            _pause(refusals)
        else:
            return


def _enter(session: Session, deployment: str, identity: str, head: TaskRun, version: int) -> None:
    known = pointer(session, deployment)[0]
    counts = replace(known, newest=identity, over=False, driver=None, preparing=None, since=head.started)
    session.commit(
        [Set(paths.task_runs(deployment), counts, version), Set(paths.task_run(deployment, identity), head, 0)]
    )


def _give_up(session: Session, deployment: str, identity: str) -> None:
    known, version = pointer(session, deployment)
    if known.preparing == identity and known.newest != identity:
        session.commit([Set(paths.task_runs(deployment), replace(known, preparing=None), version)])
        _remove(session, paths.task_run(deployment, identity))


def _forget(session: Session, deployment: str, identity: str) -> None:
    """Delete the oldest, and those before this one that were never begun."""
    older = sorted(
        name for name in session.children(paths.task_runs(deployment)) or () if _ID.fullmatch(name) and name < identity
    )
    znodes = session.get_many([paths.task_run(deployment, name) for name in older])
    begun = [name for name, znode in zip(older, znodes, strict=True) if znode is not None and znode.data]
    kept = set(begun[1 - KEPT :])
    for name in older:
        if name not in kept:
            _remove(session, paths.task_run(deployment, name))


def _remove(session: Session, path: str) -> None:
    for deletions in limits.parts(limits.singly(removal(session, path))):
        session.commit(deletions)


def _pause(attempt: int) -> None:
    """Before another attempt at what others write as well."""
    time.sleep(random.uniform(0, 0.01 * 2 ** min(attempt, 5)))


# -- what people ask --


def stop(session: Session, deployment: str, identity: str, by: str, now: bool) -> TaskRun:
    """Have nothing more begin; ``now``: and have what runs ended. Gives the head after that.

    Raises NotFound where there is no such run, Conflict where it is over.
    """
    for attempt in range(ATTEMPTS):
        known, version = pointer(session, deployment)
        znode = session.get(paths.task_run(deployment, identity))
        if znode is None or not znode.data:
            raise NotFound(
                f"deployment {deployment} has no run {identity} of tasks; see: nodepool-ocb tasks history {deployment}"
            )
        head = codec.decode(TaskRun, znode)
        if head.over or known.newest != identity:
            raise Conflict(f"run {identity} of tasks of deployment {deployment} is over: {head.state}")
        asked = "now" if now or head.stop == "now" else "asked"
        after = replace(head, stop=asked, stopped_by=head.stopped_by or by, reason=head.reason or f"stopped by {by}")
        if after == head:
            return head
        try:
            session.commit(
                [
                    Set(paths.task_runs(deployment), replace(known, since=session.now()), version),
                    Set(znode.path, after, znode.version),
                ]
            )
        except Stale:
            if attempt + 1 == ATTEMPTS:
                raise
            _pause(attempt)
        else:
            return after
    raise AssertionError("it returns or raises")


# -- what a driver writes --


def taken_over(deployment: str, known: TaskRunPointer, version: int, driver: str | None, now: float) -> list[Change]:
    """From now on this annealer drives, and what any other still sends is refused; or nobody does (None)."""
    return [Set(paths.task_runs(deployment), replace(known, driver=driver, since=now), version)]


def heads(
    deployment: str, identity: str, before: TaskRun, after: TaskRun, versions: Versions, now: float
) -> list[Change]:
    """What holds a transaction of a driver to what it knows, and the head where that is another after it."""
    own = paths.task_runs(deployment)
    first: Change = Check(own, versions.version)
    if after.over != versions.pointer.over:
        first = Set(own, replace(versions.pointer, over=after.over, since=now), versions.version)
    if after == before:
        return [first]
    return [first, Set(paths.task_run(deployment, identity), after, versions.head)]


def keep_history(session: Session, running: Running, found: Sequence[Row], version: int) -> int:
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


def over(state: RunState) -> bool:
    """Whether nothing of such a run moves any more."""
    return state in records.OVER
