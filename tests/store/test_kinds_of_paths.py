"""Each path of the tree holds records of one kind, or none."""

from __future__ import annotations

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildRequest, Pause, Upload
from nodepool_ocb.model.journal import Entry, Webhook
from nodepool_ocb.model.pool import NodeRequest, PoolComponent, PoolNode
from nodepool_ocb.model.records import Daemon, DaemonPause, Fence, Given, LockOwner, Run, TaskRunPointer
from nodepool_ocb.rollout.records import GroupRecord, NodesRecord, RolloutRecord
from nodepool_ocb.store.quarantine import ATTRIBUTES, kind
from nodepool_ocb.tasks.records import TaskListPart, TaskListRecord, TaskSettings
from nodepool_ocb.tasks.runs.records import Rows, Table, TaskRun

NODEROLE = paths.noderole("ntp", "n1.example.com")
CONTENDER = "lock/5ac16d2f-9f33-4c8a-a8d2-0a1b2c3d4e5f__lock__0000000001"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *((f"{NODEROLE}/{part}", ATTRIBUTES) for part in ("user", "system", "wall")),
        (f"{NODEROLE}/given", Given),
        (f"{NODEROLE}/runs/0000000001", Run),
        ("/ocb/rollouts/lab/0000000001", RolloutRecord),
        ("/ocb/rollouts/lab/0000000001/groups/a", GroupRecord),
        ("/ocb/rollouts/lab/0000000001/nodes/0000", NodesRecord),
        ("/ocb/journal/webhook", Webhook),
        ("/ocb/journal/entries/0000000001", Entry),
        ("/ocb/paused/annealer/a1", DaemonPause),
        ("/nodepool/daemons/paused/builder/b1", DaemonPause),
        ("/nodepool/image/debian/request-build", BuildRequest),
        ("/nodepool/image/debian/pause", Pause),
        ("/nodepool/image/debian/builds/0000000001", Build),
        ("/nodepool/image/debian/builds/0000000001/provider/p/images/0000000001", Upload),
        *((f"/ocb/tasks/{owner}/lab", TaskListRecord) for owner in ("releases", "deployments")),
        *((f"/ocb/tasks/{owner}/lab/list-0000000001/0000", TaskListPart) for owner in ("releases", "deployments")),
        ("/ocb/tasks/deployments/lab/settings", TaskSettings),
        ("/ocb/tasks/runs/lab/0000000001", TaskRun),
        ("/ocb/tasks/runs/lab/0000000001/facts/f", ATTRIBUTES),
        *((f"/ocb/tasks/runs/lab/0000000001/{table}/0000", Rows) for table in Table),
        *((f"/ocb/{place}/{CONTENDER}", LockOwner) for place in ("rollouts/lab/0000000001", "journal/webhook")),
        (f"/ocb/tasks/runs/lab/0000000001/{CONTENDER}", LockOwner),
        (f"/nodepool/image/debian/builds/{CONTENDER}", LockOwner),
        ("/ocb/nodes", None),
        ("/ocb/nodes/n1.example.com/fence", Fence),
        ("/ocb/tasks/runs/lab", TaskRunPointer),
        ("/nodepool/daemons/builder/b1", Daemon),
        ("/nodepool/daemons/paused/builder", None),
        ("/nodepool/requests/100-0000000001", NodeRequest),
        ("/nodepool/nodes/0000000001", PoolNode),
        ("/nodepool/components/pool/h0000000001", PoolComponent),
        (f"/nodepool/nodes/0000000001/{CONTENDER}", LockOwner),
        (f"/nodepool/requests-lock/100-0000000001/{CONTENDER.partition('/')[2]}", LockOwner),
        ("/nodepool/requests-lock/100-0000000001", None),
        ("/ocb/tasks/runs/lab/0000000001/lock/other", None),
        ("/nodepool/image/debian/builds/lock", None),
        ("/nodepool/image/debian/builds/0000000001/provider/p/images/lock", None),
    ],
)
def test_a_path_holds_records_of_one_kind(path: str, expected: object) -> None:
    assert kind(path) == expected
