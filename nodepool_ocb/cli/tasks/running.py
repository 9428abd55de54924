"""Runs of tasks as commands see them: found by their names, and read whole.

A run is written ``DEPLOYMENT/ID``; the deployment alone means its newest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nodepool_ocb.cli.kit.options import unknown
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.views.tasks import runs as shown
from nodepool_ocb.views.tasks.histories import InstanceRow
from nodepool_ocb.views.tasks.runs import Key

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.tasks.runs.records import TaskRun

NOBODY: Final = "no annealer is running: nothing of a run moves; systemctl start nodepool-ocb-annealer"
COLUMNS: Final = ("task", "node", "state", "queued", "started", "took", "exit_code", "why", "log")


class Run(NamedTuple):
    """A run at one moment; ``instances`` are without barriers."""

    key: Key
    head: TaskRun
    instances: list[InstanceRow]
    holder: LockOwner | None

    @property
    def row(self) -> shown.RunRow:
        return shown.row(self.key, self.head, self.holder)


def find(opened: Session, written: str) -> Key:
    """The run that is meant by ``DEPLOYMENT`` or ``DEPLOYMENT/ID``; leading zeros may be left out. Raises NotFound."""
    from nodepool_ocb.store.tasks import runs

    opened.sync()
    deployment, slash, id = written.partition("/")
    if slash:
        return Key(deployment, id.zfill(10))
    newest = runs.newest(opened, deployment)
    if newest is None:
        known = [each for each in opened.children(paths.TASK_RUNS) or [] if each == deployment]
        if not known and not opened.exists(paths.deployment(deployment)):
            raise unknown("deployment", deployment, opened.children(paths.DEPLOYMENTS) or [])
        raise NotFound(
            f"deployment {deployment} has no run of tasks; nodepool-ocb tasks run --deployment {deployment} begins one"
        )
    return Key(deployment, newest)


def load(opened: Session, key: Key) -> Run:
    """The run as it is now; raises NotFound."""
    found = read(opened, key)
    if found is None:
        raise NotFound(f"there is no tasks run {key}; see: nodepool-ocb tasks runs {key.deployment}")
    return found
