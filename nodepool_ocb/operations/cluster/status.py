"""``status``: the whole cluster at a glance."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from nodepool_ocb.operations.cluster import limited
from nodepool_ocb.operations.commits import outdated
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.operation import Lookup, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.images import ReadImages
from nodepool_ocb.operations.reads.overview import (
    InspectPools,
    InspectRecords,
    InspectWorkers,
    ReadDaemonPauses,
    ReadWebhook,
)
from nodepool_ocb.operations.reads.world import ReadCensus, ReadWorld
from nodepool_ocb.operations.rollouts import reading as rollouts
from nodepool_ocb.operations.tasks import runs as task_runs
from nodepool_ocb.views import status as shown
from nodepool_ocb.views.status import Overview

INSPECTED: Final = 1000  # noderoles: of a larger cluster, attributes and runs are not read


class StatusOverview(Operation[Overview], frozen=True, kw_only=True):
    """The number of records of each kind, failures, movements, daemons, and the records that cannot be read."""

    noun = "status"
    verb = ""
    right = Right.VIEWER
    reads: ClassVar[tuple[type[Lookup[Any]], ...]] = (
        ReadCensus,
        ReadImages,
        InspectWorkers,
        InspectPools,
        InspectRecords,
        *rollouts.RolloutList.reads,
        ReadDaemonPauses,
        ReadWebhook,
        *task_runs.TasksRuns.reads,
        *outdated.READS,
    )

    def of_deployments(self, names: frozenset[str]) -> StatusWithin:
        """The same of these deployments alone, for a caller with limits."""
        return StatusWithin(names=names)

    def decide(self, situation: Situation) -> Steps[Overview]:
        world = yield from ReadCensus()
        images = yield from ReadImages()
        workers = yield from InspectWorkers()
        pool = yield from InspectPools()
        count = sum(each.node.stands_for for each in world.counted())
        left_out = count if count > INSPECTED else 0
        locks = tuple(finding.lock_paths(images.by_name))
        others = yield from InspectRecords(locks, nodes=not left_out)
        rows = yield from rollouts.rows()
        pauses = yield from ReadDaemonPauses()
        webhook = yield from ReadWebhook()
        runs = yield from task_runs.rows(None)
        changed = yield from outdated.found(world, world.counted())
        return shown.overview(
            world,
            images.by_name,
            rows,
            workers.builders,
            {**images.unread, **workers.unread, **world.unreadable, **others, **webhook.unread},
            changed.vertices,
            runs,
            pauses,
            webhook.record,
            left_out,
            launchers=workers.launchers,
            pool=pool,
            now=situation.local_now,
        )


class StatusWithin(StatusOverview, frozen=True, kw_only=True):
    """Images, pools, the webhook and unreadable records belong to no deployment: they are left out.

    It has no name in the API: the limits of a caller put it in the place of ``StatusOverview``.
    """

    reads = (ReadWorld, *rollouts.RolloutList.reads, ReadDaemonPauses, *task_runs.TasksRuns.reads, *outdated.READS)

    names: frozenset[str]  # of the deployments

    def decide(self, situation: Situation) -> Steps[Overview]:
        world = yield from ReadWorld()
        rows = yield from rollouts.rows()
        runs = yield from task_runs.rows(None)
        pauses = yield from ReadDaemonPauses()
        inside = [each for each in world.vertices() if each.record.deployment in self.names]
        changed = yield from outdated.found(world, inside)
        found = shown.overview(
            world,
            {},
            [row for row in rows if row.deployment in self.names],
            {},
            {},
            changed.vertices,
            [row for row in runs if row.run.partition("/")[0] in self.names],
            {key: pause for key, pause in pauses.items() if key[0] == limited.ANNEALER},
            now=situation.local_now,
        )
        return limited.within(found, world, self.names, situation.local_now)
