"""Runs of tasks and rollouts of one deployment: a run that a rollout sends, and the rule that of two only one is under
way.

One transaction ties the two together. The run's record names the rollout that begins or resumes, and the transaction
checks the version of the run's pointer. So neither exists without the other. A rollout and a run that belongs to no
rollout exclude each other.
"""

from __future__ import annotations

import time
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import ROLLOUT, TASK_RUN, Key
from nodepool_ocb.model.records import Change, Check, Set
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import lines
from nodepool_ocb.store.driven.executions import TASK_RUNS
from nodepool_ocb.store.tasks import runs
from nodepool_ocb.store.tasks.runs import Versions
from nodepool_ocb.tasks.runs.records import TaskRun

ENDS_SECONDS: Final = 15.0  # in which a run ends after its rollout
LOOK_SECONDS: Final = 0.05


def rollout_under_way(session: Session, deployment: str) -> str | None:
    """The id of a deployment's rollout that is under way."""
    return next((identity for _, identity in lines.under_way(session, [deployment])), None)


def refuse_rollout(session: Session, deployment: str) -> None:
    """Raises Conflict while a rollout of the deployment is under way."""
    if identity := rollout_under_way(session, deployment):
        raise Conflict(ROLLOUT.under_way(Key(deployment, identity), ", and no run of tasks begins beside it"))


def alone(session: Session, deployment: str) -> list[Change]:
    """The checks for a rollout without tasks: no run of tasks may be under way. Raises Conflict while one is."""
    known, version = runs.pointer(session, deployment)
    if not known.over and known.newest is not None:
        raise Conflict(TASK_RUN.under_way(Key(deployment, known.newest), ", and no rollout begins beside it"))
    if runs.preparer(session, deployment, known):
        raise Conflict(
            f"tasks run {deployment}/{known.preparing} is being prepared; wait for it; see: nodepool-ocb tasks runs {deployment}"
        )
    return [Check(paths.task_runs(deployment), version)] if version >= 0 else []


def joined(session: Session, deployment: str, identity: str, rollout: str) -> list[Change]:
    """The changes that give a held run to a rollout that begins; raises Conflict if the run is over, stopped or sent by
    a rollout.
    """
    znode, head = _read(session, deployment, identity)
    if head.over or head.stop or head.rollout is not None:
        raise Conflict(
            f"tasks run {deployment}/{identity} is {head.state}, and no rollout can send it;"
            " start another rollout: nodepool-ocb rollout start"
        )
    return _written(session, deployment, znode, replace(head, rollout=rollout))


def ended(session: Session, deployment: str, identity: str) -> tuple[TaskRun, Versions]:
    """The head of a run that is over, and the versions that a transaction on it names.

    An annealer ends a run as soon as its rollout is over: this waits for that, at most ``ENDS_SECONDS``. Raises Conflict
    after that time, NotFound if the run is gone.
    """
    deadline = time.monotonic() + ENDS_SECONDS
    while not _read(session, deployment, identity)[1].over:
        if time.monotonic() > deadline:
            raise Conflict(
                f"tasks run {deployment}/{identity} has not ended with its rollout yet: something of it is still at work, or no"
                f" annealer drives it; wait for it: nodepool-ocb tasks wait {deployment}/{identity}"
            )
        time.sleep(LOOK_SECONDS)
    known, version = runs.pointer(session, deployment)
    znode, head = _read(session, deployment, identity)
    return head, Versions(known, version, {"": znode.version})


def _read(session: Session, deployment: str, identity: str) -> tuple[Znode, TaskRun]:
    found = TASK_RUNS.head(session, deployment, identity)
    if found is None:
        raise NotFound(f"tasks run {deployment}/{identity} is gone; begin another rollout: nodepool-ocb rollout start")
    return found


def _written(session: Session, deployment: str, znode: Znode, head: TaskRun) -> list[Change]:
    known, version = runs.pointer(session, deployment)
    pointer = Set(paths.task_runs(deployment), replace(known, since=session.now()), version)
    return [pointer, Set(znode.path, head, znode.version)]
