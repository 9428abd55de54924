"""A village beside the canaries that has one record of every kind, and where each is."""

from __future__ import annotations

import time
from typing import Final

from nodepool_ocb.model import paths
from nodepool_ocb.model.aside import Aside
from nodepool_ocb.model.images import Build, BuildRequest, BuildState, Pause, Upload, UploadState
from nodepool_ocb.model.journal import Entry, Webhook
from nodepool_ocb.model.records import (
    Append,
    Claim,
    Cluster,
    Create,
    Daemon,
    DaemonPause,
    Deployment,
    DeploymentRole,
    DeploymentState,
    Fence,
    Gate,
    Given,
    LockOwner,
    Node,
    NodeRole,
    Record,
    Role,
    RolloutPointer,
    Run,
    State,
    Structure,
    TaskRunPointer,
)
from nodepool_ocb.rollout.plan import begin
from nodepool_ocb.rollout.records import GroupRecord, NodesRecord, RolloutRecord
from nodepool_ocb.rollout.selectors import inventory
from nodepool_ocb.rollout.strategy import WHOLE
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.tasks import lists
from nodepool_ocb.store.tasks.lists import Meta
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.records import TaskListPart, TaskListRecord, TaskSettings
from nodepool_ocb.tasks.runs.records import Rows, TaskRun
from tests.annealer.tasks import task_staging
from tests.journeys.hostile.canaries import Canaries

TASK: Final = "- {id: one, type: shell, role: [a], parameters: {cmd: x}}\n"
NODE, ROLE, LAB = "victim.example.com", "victim", "village"
UPLOAD, TASKS, RUN = "list-0000000000", task_staging.LAB, "0000000000"
IMAGE, PROVIDER, ID = "jammy", "west", "0000000001"
LOCK = f"{paths.build_lock(IMAGE)}/0123__lock__0000000000"

#: Every kind of znode: a record that is spoiled, and where.
KINDS: Final[tuple[tuple[type[Record] | None, str], ...]] = (
    (Role, paths.role(ROLE)),
    (Deployment, paths.deployment(LAB)),
    (DeploymentRole, paths.deployment_role(LAB, ROLE)),
    (Gate, paths.gate(LAB, ROLE)),
    (Node, paths.node(NODE)),
    (Fence, paths.fence(NODE)),
    (Claim, paths.claim(NODE)),
    (NodeRole, paths.noderole(ROLE, NODE)),
    (NodeRole, paths.noderole("other", NODE)),
    (None, paths.user(ROLE, NODE)),
    (None, paths.system(ROLE, NODE)),
    (None, paths.wall(ROLE, NODE)),
    (Run, paths.run(ROLE, NODE, "0000000001-abc")),
    (Daemon, paths.daemon("annealer", "ghost")),
    (Daemon, paths.daemon("builder", "ghost")),
    (RolloutPointer, paths.rollouts(LAB)),
    (RolloutRecord, paths.rollout(LAB, "0000000000")),
    (GroupRecord, paths.rollout(LAB, "0000000000", "groups/all")),
    (NodesRecord, paths.rollout(LAB, "0000000000", "nodes/0000")),
    (Structure, paths.STRUCTURE),
    (BuildRequest, paths.request_build(IMAGE)),
    (Pause, paths.pause(IMAGE)),
    (Build, paths.build(IMAGE, ID)),
    (Upload, paths.upload(IMAGE, ID, PROVIDER, ID)),
    (LockOwner, LOCK),
    (Cluster, paths.CLUSTER),
    (Given, paths.given(ROLE, NODE)),
    (DaemonPause, paths.daemon_pause("annealer", "elsewhere")),
    (DaemonPause, paths.daemon_pause("builder", "elsewhere")),
    (Entry, paths.entry(0)),
    (Webhook, paths.WEBHOOK),
    (LockOwner, f"{paths.WEBHOOK_LOCK}/0123__lock__0000000000"),
    (LockOwner, f"{paths.rollout_lock(LAB, '0' * 10)}/0123__lock__0000000099"),
    (TaskListRecord, paths.release_tasks("9.0")),
    (TaskListPart, paths.release_tasks("9.0", f"{UPLOAD}/0000")),
    (TaskListRecord, paths.deployment_tasks(LAB)),
    (TaskListPart, paths.deployment_tasks(LAB, f"{UPLOAD}/0000")),
    (TaskSettings, paths.deployment_tasks(LAB, "settings")),
    (TaskRunPointer, paths.task_runs(TASKS)),
    (TaskRun, paths.task_run(TASKS, RUN)),
    *((Rows, paths.task_run(TASKS, RUN, f"{table}/0000")) for table in ("plan", "definitions", "history")),
    (None, paths.task_facts(TASKS, RUN)),
    (LockOwner, f"{paths.task_run_lock(TASKS, RUN)}/0123__lock__0000000099"),
)


def settle(canaries: Canaries) -> None:
    """One of every kind, beside the canaries."""
    session, now = canaries.session, time.time()
    committed = Deployment(state=DeploymentState.COMMITTED, since=now)
    session.commit([Create(paths.deployment(LAB), committed), Create(paths.deployment_roles(LAB))])
    session.commit([Create(paths.deployment_role(LAB, ROLE), DeploymentRole()), Create(paths.clusters(LAB))])
    session.commit([Create(paths.gate(LAB, ROLE), Gate())])
    for name in (ROLE, "other"):
        canaries.add_role(name, Role(barclamp="village", jig="test", retries=2, backoff_seconds=0.1))
    canaries.add_node(NODE, Node(virtual=True, alive=True, deployment=LAB))
    done = NodeRole(state=State.ACTIVE, since=now, deployment=LAB, generation=1, serves=(ROLE,))
    session.commit([Create(paths.noderole(ROLE, NODE), done), Create(paths.runs(ROLE, NODE))])
    canaries.add_node("member.example.com", Node(available=False, deployment=LAB))  # a rollout has no virtual nodes
    other = NodeRole(state=State.ACTIVE, since=now, deployment=LAB, generation=1, parents=(f"{ROLE}@*{LAB}",))
    session.commit([Create(paths.noderole("other", NODE), other), Create(paths.runs("other", NODE))])
    for path in (paths.user(ROLE, NODE), paths.system(ROLE, NODE), paths.wall(ROLE, NODE)):
        session.commit([Create(path, {"a": 1})])
    run = Run(annealer="a", started=now, ended=now, outcome="succeeded", generation=1, epoch=1)
    session.commit([Create(paths.run(ROLE, NODE, "0000000001-abc"), run)])
    assert rollouts.begin(session, LAB, begin(WHOLE, inventory(load_world(session), LAB), now, by="a test")) == "0" * 10
    session.ensure(paths.IMAGES, paths.daemons("builder"), paths.builds(IMAGE), paths.uploads(IMAGE, ID, PROVIDER))
    session.commit([Create(paths.given(ROLE, NODE), Given(jig="test"))])
    _images(canaries, now)
    _of_daemons(session, now)
    _tasks(canaries)
    for lock in (paths.rollout_lock(LAB, "0" * 10), paths.task_run_lock(TASKS, RUN)):
        session.ensure(lock)
        holder = LockOwner(daemon="b", host="h", pid=1, purpose="p", since=now)
        session.commit([Create(f"{lock}/0123__lock__0000000099", holder, ephemeral=True)])


def _of_daemons(session: Session, now: float) -> None:
    session.ensure(paths.JOURNAL_ENTRIES, paths.WEBHOOK_LOCK)
    session.commit([Append(paths.JOURNAL_ENTRIES, Entry(at=now, login="a", host="h", verb="node set"))])
    session._client.set(paths.WEBHOOK, codec.encode(Webhook(delivered=0, at=now)))
    holder = LockOwner(daemon="b", host="h", pid=1, purpose="p", since=now)
    session.commit([Create(f"{paths.WEBHOOK_LOCK}/0123__lock__0000000000", holder, ephemeral=True)])
    for kind in ("annealer", "builder"):
        session.ensure(paths.daemon_pauses(kind))
        paused = DaemonPause(pause=Aside(by="a test", since=now))
        session.commit([Create(paths.daemon_pause(kind, "elsewhere"), paused)])


def _tasks(canaries: Canaries) -> None:
    """A run of tasks that is over, and lists."""
    session = canaries.session
    for owner in (lists.release("9.0"), lists.deployment(LAB)):
        lists.upload(session, owner, {"tasks.yaml": TASK}, Meta(tasks=1), None)
    lists.configure(session, LAB, {"a": 1}, "a test", None)
    task_staging.build(session, {"t1": ["a"]})
    assert task_staging.begin(session, TASK, {"t1": ["a"]}) == RUN
    task_staging.finished(session, RUN)


def _images(canaries: Canaries, now: float) -> None:
    build = Build(builder="b", builder_id="b", filename="f", state=BuildState.READY, state_time=now)
    upload = Upload(state=UploadState.READY, state_time=now, format="raw")
    client = canaries.session._client
    client.set(paths.build(IMAGE, ID), codec.encode(build))
    canaries.session.commit([Create(paths.upload(IMAGE, ID, PROVIDER, ID), upload)])
    canaries.session.commit([Create(paths.request_build(IMAGE), BuildRequest()), Create(paths.pause(IMAGE), Pause())])
    canaries.session.ensure(paths.build_lock(IMAGE))
    holder = LockOwner(daemon="b", host="h", pid=1, purpose="p", since=now)
    daemon = Daemon(host="h", pid=1, version="1", started=now, jigs=("noop",))
    canaries.session.commit([Create(LOCK, holder, ephemeral=True)])
    for kind in ("annealer", "builder"):
        canaries.session.commit([Create(paths.daemon(kind, "ghost"), daemon, ephemeral=True)])
    claim = Claim(annealer="ghost", noderole=f"{ROLE}@{NODE}", run="0000000001-abc", epoch=1, since=now)
    canaries.until(lambda: _over(canaries), "the rollout is over")
    canaries.session.commit([Create(paths.claim(NODE), claim, ephemeral=True)])


def _over(canaries: Canaries) -> bool:
    found = rollouts.read(canaries.session, LAB, "0" * 10)
    return found is not None and found[0].over
