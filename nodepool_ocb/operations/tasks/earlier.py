"""The earlier runs of a deployment, as they concern the next one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.executions import TASK_RUN, Key
from nodepool_ocb.operations.operation import Steps
from nodepool_ocb.operations.reads.tasks.runs import EarlierRun, ReadEarlierRuns

if TYPE_CHECKING:
    from nodepool_ocb.tasks.facts import ClusterStatus

READS = (ReadEarlierRuns,)


class EarlierRuns(msgspec.Struct, frozen=True):
    """The runs of a deployment, the newest first; a run that changed nothing (``--noop``) does not count."""

    deployment: str
    runs: tuple[EarlierRun, ...]

    @property
    def status(self) -> ClusterStatus:
        """The status of the deployment, for conditions."""
        from nodepool_ocb.tasks.facts import cluster_status  # here, so that a start of the command does not load it

        counted = [each for each in self.runs if not each.head.noop]
        return cluster_status(str(counted[0].head.state) if counted else None)

    @property
    def over(self) -> tuple[str, ...]:
        """The ids of those that are over and changed machines."""
        return tuple(each.id for each in self.runs if each.head.over and not each.head.noop)

    @property
    def retried(self) -> EarlierRun:
        """The newest; raises Conflict if there is none that a retry can go on with."""
        newest = next((each for each in self.runs if not each.head.noop), None)
        if newest is None:
            raise Conflict(
                f"deployment {self.deployment} has no run of tasks that could be gone on with; leave --retry away"
            )
        if not newest.head.over:
            raise Conflict(TASK_RUN.under_way(Key(self.deployment, newest.id)))
        if newest.head.state == "successful":
            raise Conflict(
                f"nothing failed in tasks run {self.deployment}/{newest.id}; leave --retry away to run all again"
            )
        return newest


def load(deployment: str) -> Steps[EarlierRuns]:
    """The earlier runs of a deployment."""
    return EarlierRuns(deployment, (yield from ReadEarlierRuns(deployment)))
