"""A run of tasks begins: it is written, its noderoles are bound, then an annealer may drive it.

A process that prepares a run holds the run's lock, and the run's id stands in the deployment's pointer as
``preparing``. Until that lock is free again, no other process prepares a run. Every transaction of the preparation
holds the pointer to the version that was written then. So if two prepare, only one binds anything. A run with an
unfinished preparation counts as never begun: nothing of it was committed, and the next run binds the same noderoles
anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import deployments
from nodepool_ocb.errors import Conflict, NotFound, OcbError, OutcomeUnknown, Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.executions import TASK_RUN, Key
from nodepool_ocb.model.records import (
    Change,
    Check,
    Create,
    Deployment,
    DeploymentState,
    Json,
    LockOwner,
    Role,
    Set,
    TaskRunPointer,
)
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.driven.pointers import ATTEMPTS, again, pause
from nodepool_ocb.store.locks import Lock, Locks
from nodepool_ocb.store.tasks.rolled import refuse_rollout
from nodepool_ocb.store.tasks.runs import pointer, preparer
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.runs import commands, records, roles
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, Table, TaskRun


class NewTaskRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to begin. ``facts`` and ``texts`` are stored with it for jigs and people; decisions do not read them."""

    running: LoadedTaskRun  # its id is not known yet: ""
    roles: Mapping[str, Role]  # name → the role for the catalogue
    facts: Mapping[str, Mapping[str, Json]]  # node, or "common" → the attributes that jigs see
    texts: Sequence[tuple[str, str]] = ()  # path, text of each file of the task list


def begin(
    session: Session, wanted: NewTaskRun, me: LockOwner, tell: Callable[[int, int], None] = lambda *_: None
) -> str:
    """Write a run, bind its noderoles, and let an annealer drive it; gives its id.

    ``tell`` gets the number of written changes and about how many there are. Raises Conflict if another run of the
    deployment is under way or being prepared. Raises Conflict if the deployment is PROPOSED, or if a noderole is in
    TRANSITION. Raises NotFound if a record is gone.
    """
    deployment, by = wanted.running.deployment, wanted.running.head.by
    path = paths.task_runs(deployment)
    pointers.opened(
        session, path, TaskRunPointer, [Check(paths.deployment(deployment), _committed(session, deployment))]
    )
    locks = Locks(session)
    identity, lock, version = _reserve(session, locks, deployment, me)
    try:
        running = replace(wanted.running, id=identity, head=replace(wanted.running.head, parts={}))
        head = _write_tables(session, running, wanted)
        guard = Check(path, version)
        _bind(session, replace(running, head=head), wanted.roles, guard, by, tell)
        _enter(session, deployment, identity, head, version)
    except BaseException:
        with contextlib.suppress(Exception):  # the next run deletes the rest
            _give_up(session, deployment, identity)
        raise
    finally:
        locks.release(lock)
    with contextlib.suppress(OcbError):  # it has begun: the next run deletes the rest
        pointers.forget(session, path, identity)
    return identity


def _committed(session: Session, deployment: str) -> int:
    """The version of the deployment's record."""
    session.sync()
    znode = session.get(paths.deployment(deployment))
    if znode is None:
        raise NotFound(f"deployment {deployment} does not exist; see: nodepool-ocb deployment list")
    record = codec.decode(Deployment, znode)
    deployments.refuse_deleting(deployment, record)
    if record.state is DeploymentState.PROPOSED:
        advice = f"nodepool-ocb deployment commit {deployment}"
        raise Conflict(f"deployment {deployment} is PROPOSED, and annealers keep out of it; {advice}")
    return znode.version


def _reserve(session: Session, locks: Locks, deployment: str, me: LockOwner) -> tuple[str, Lock, int]:
    """The next id, its lock, and the version of the pointer that names it."""
    for attempt in range(ATTEMPTS):
        committed = Check(paths.deployment(deployment), _committed(session, deployment))
        known, version = pointer(session, deployment)
        refuse_rollout(session, deployment)
        _refuse_another(session, deployment, known)
        identity = pointers.next_id(session, paths.task_runs(deployment), known)
        lock = None
        try:
            session.commit([Create(paths.task_run(deployment, identity))])
            lock = locks.take(paths.task_run_lock(deployment, identity), me)
            if lock is not None:
                reserved = Set(paths.task_runs(deployment), replace(known, preparing=identity), version)
                session.commit([committed, reserved])  # the deployment is not being deleted
                return identity, lock, version + 1
        except (
            Stale,
            OutcomeUnknown,
        ) as refused:  # another took it, or may have: an empty znode does not name its owner
            if lock is not None and isinstance(refused, Stale):
                _forgo(session, locks, lock, paths.task_run(deployment, identity))
            if attempt + 1 == ATTEMPTS:
                raise
        pause(attempt)
    raise Stale(f"others begin runs in deployment {deployment} on and on; try again", paths.task_runs(deployment))


def _forgo(session: Session, locks: Locks, lock: Lock, path: str) -> None:
    """Another was faster: the id that was taken here is free again, so that the numbers of runs have no gaps."""
    locks.release(lock)
    with contextlib.suppress(Stale, OutcomeUnknown):  # an empty run may stay, which is forgotten later
        pointers.remove(session, path)


def _refuse_another(session: Session, deployment: str, known: TaskRunPointer) -> None:
    if not known.over and known.newest is not None:
        raise Conflict(TASK_RUN.under_way(Key(deployment, known.newest)))
    refuse_preparing(session, deployment, known)


def refuse_preparing(session: Session, deployment: str, known: TaskRunPointer) -> None:
    """Raises Conflict while a process prepares a run. A preparation that broke off does not count."""
    if known.preparing is not None:
        commands.refuse_preparing(Key(deployment, known.preparing), preparer(session, deployment, known))


def _write_tables(session: Session, running: LoadedTaskRun, wanted: NewTaskRun) -> TaskRun:
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
    running: LoadedTaskRun,
    wanted: Mapping[str, Role],
    guard: Check,
    by: str | None,
    tell: Callable[[int, int], None],
) -> None:
    """Bind all noderoles. If another process writes the same tree, the noderoles that exist by then are left out."""
    written, refusals = 0, 0
    while True:
        session.sync()
        world = load_world(session)
        try:
            for transaction in roles.transactions(world, running, wanted, session.now(), by):
                session.commit([guard, *transaction])
                written, refusals = written + len(transaction), 0
                tell(written, 2 * len(running.plan))
        except Stale as stale:
            refusals += 1
            if stale.path == guard.path or refusals == ATTEMPTS:
                raise
            pause(refusals)
        else:
            return


def _enter(session: Session, deployment: str, identity: str, head: TaskRun, version: int) -> None:
    """Let the run be under way; again where the structure changes meanwhile, as it does when a rollout begins."""
    known = pointer(session, deployment)[0]
    counts = replace(known, newest=identity, over=False, driver=None, preparing=None, since=head.started)
    own = [Set(paths.task_runs(deployment), counts, version), Set(paths.task_run(deployment, identity), head, 0)]

    def enter() -> None:
        structure = session.get(paths.STRUCTURE)
        refuse_rollout(session, deployment)
        session.commit([Check(paths.STRUCTURE, structure.version if structure is not None else -1), *own])

    again(enter, final=lambda refusal: isinstance(refusal, Stale) and refusal.path != paths.STRUCTURE)


def _give_up(session: Session, deployment: str, identity: str) -> None:
    known, version = pointer(session, deployment)
    if known.preparing == identity and known.newest != identity:
        session.commit([Set(paths.task_runs(deployment), replace(known, preparing=None), version)])
        pointers.remove(session, paths.task_run(deployment, identity))
