"""Runs of tasks as commands see them: found by their names, and read whole.

A run is written ``DEPLOYMENT/ID``; the deployment alone means its newest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nodepool_ocb.engine.acting.annealers import START
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.views.tasks import runs as shown
from nodepool_ocb.views.tasks.histories import InstanceRow

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.tasks.runs.records import TaskRun

NOBODY: Final = f"no annealer is running: nothing of a run moves; {START}"
COLUMNS: Final = ("task", "node", "state", "queued", "started", "took", "exit_code", "why", "log")


class TaskRunSnapshot(NamedTuple):
    """A run at one moment; ``instances`` are without barriers."""

    key: Key
    head: TaskRun
    instances: list[InstanceRow]
    holder: LockOwner | None

    @property
    def row(self) -> shown.TaskRunRow:
        return shown.row(self.key, self.head, self.holder)


def find(opened: Session, written: str) -> Key:
    """The run that is meant by ``DEPLOYMENT`` or ``DEPLOYMENT/ID``; leading zeros may be left out. Raises NotFound."""
    from nodepool_ocb.store.tasks import runs

    opened.sync()
    deployment, _, id = written.partition("/")
    known = opened.children(paths.DEPLOYMENTS) or []
    if deployment not in known:
        raise unknown("deployment", deployment, known)
    return Key(deployment, runs.chosen(opened, deployment, id or None))


def load(opened: Session, key: Key) -> TaskRunSnapshot:
    """The run as it is now; raises NotFound."""
    found = read(opened, key)
    if found is None:
        raise NotFound(f"there is no tasks run {key}; see: nodepool-ocb tasks runs {key.deployment}")
    return found


def read(opened: Session, key: Key, world: World | None = None) -> TaskRunSnapshot | None:
    """The run as it is now; None where it is not there. ``world`` may be given where it was read already."""
    from nodepool_ocb.store.tasks import runs
    from nodepool_ocb.store.world.load import load_world

    found = runs.read(opened, *key)
    if found is None:
        return None
    running, _ = found
    if world is None:
        world = World() if running.head.over else load_world(opened)
    barriers = {running.plan.tasks[each] for each in running.plan.barriers}
    instances = shown.instances(runs.rows(opened, world, running), barriers)
    return TaskRunSnapshot(key, running.head, instances, _driver(opened, key) if not running.head.over else None)


def _driver(opened: Session, key: Key) -> LockOwner | None:
    from nodepool_ocb.store.locks import holders

    return holders(opened, [paths.task_run_lock(*key)])[0]


def rows(opened: Session, deployment: str | None) -> list[shown.TaskRunRow]:
    """Runs at a glance: by deployment, the newest first; raises NotFound."""
    from nodepool_ocb.store.tasks import runs

    known = opened.children(paths.DEPLOYMENTS) or []
    if deployment is not None and deployment not in known:
        raise unknown("deployment", deployment, known)
    found = runs.list_(opened, [deployment] if deployment is not None else None)
    ordered = sorted(found, key=lambda each: (each.deployment, -int(each.id)))
    return [_row(opened, Key(each.deployment, each.id), each.head) for each in ordered]


def _row(opened: Session, key: Key, head: TaskRun) -> shown.TaskRunRow:
    return shown.row(key, head, None if head.over else _driver(opened, key))
