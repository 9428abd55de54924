"""A village beside the canaries that has one record of every kind, and where each is."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect

from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildRequest, BuildState, Pause, Upload, UploadState
from nodepool_ocb.model.journal import Entry, Webhook
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import (
    Append,
    Claim,
    Create,
    Daemon,
    DaemonPause,
    Deployment,
    DeploymentRole,
    DeploymentState,
    Gate,
    Given,
    LockOwner,
    Node,
    NodeRole,
    Record,
    Role,
    Run,
    State,
)
from nodepool_ocb.rollout.plan import begin
from nodepool_ocb.rollout.selectors import inventory
from nodepool_ocb.rollout.strategy import WHOLE
from nodepool_ocb.store import kinds, rollouts
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.tasks import lists
from nodepool_ocb.store.tasks.lists import Meta
from nodepool_ocb.store.world.load import load_world
from tests.annealer.tasks import task_staging
from tests.journeys.hostile.canaries import Canaries

TASK: Final = "- {id: one, type: shell, role: [a], parameters: {cmd: x}}\n"
NODE, ROLE, LAB = "victim.example.com", "victim", "village"
UPLOAD, TASKS, RUN = "list-0000000000", task_staging.LAB, "0000000000"
IMAGE, PROVIDER, ID = "jammy", "west", "0000000001"
LOCK = f"{paths.build_lock(IMAGE)}/0123__lock__0000000000"

#: The names in the paths of the village's records.
NAMES: Final = {
    "role": ROLE, "deployment": LAB, "node": NODE, "run": "0000000001-abc", "daemon": "ghost", "host": "elsewhere",
    "entry": "0" * 10, "image": IMAGE, "build": ID, "provider": PROVIDER, "upload": ID, "rollout": "0" * 10, "group": "all",
    "part": "0000", "release": "9.0", "folder": UPLOAD, "task_run": RUN, "name": "common",
    "network": "village", "address": "192.0.2.7", "mac": "52:54:00:00:00:07", "adoption_rule": "village",
    "request": f"100-{ID}", "pool_node": ID, "component_kind": "pool", "component": f"h{ID}",
}  # fmt: skip


def _placed() -> Iterator[tuple[type[Record] | None, str]]:
    """One record for each path of each kind."""
    for row in kinds.KINDS:
        for pattern in row.paths:
            others = defaultdict(lambda: ROLE, NAMES)
            others["daemons"] = "builder" if pattern.startswith("/nodepool/") else "annealer"
            driven = pattern.startswith((paths.ROLLOUTS, paths.TASK_RUNS))
            others["contender"] = f"0123__lock__00000000{99 if driven else 0:02}"
            if pattern.startswith(paths.TASK_RUNS):
                others["deployment"] = TASKS
            yield row.record, pattern.format_map(others)


#: Every kind of znode: a record that is spoiled, and where.
KINDS: Final[tuple[tuple[type[Record] | None, str], ...]] = (*_placed(), (NodeRole, paths.noderole("other", NODE)))


def _sample(of: Any) -> Any:
    """A value of a type: the required fields of a struct, or the smallest value."""
    match of:
        case inspect.StructType():
            return {field.encode_name: _sample(field.type) for field in of.fields if field.required}
        case inspect.StrType(pattern=pattern):
            samples = "a", "a" * 32, "a" * 64, "52:54:00:00:00:07", f"{ROLE}@{NODE}"
            return next(text for text in samples if re.search(pattern or "", text))
        case inspect.IntType() | inspect.FloatType():
            return 1
        case inspect.EnumType():
            return next(iter(of.cls)).value
        case inspect.DictType():
            return {}
    return []


def _add_others(session: Session) -> None:
    """A record of each path where nothing else made one."""
    for kind, path in KINDS:
        if session.get(path) is None:
            assert kind is not None
            session.ensure(path.rpartition("/")[0])
            record = msgspec.convert(_sample(inspect.type_info(kind)), kind)
            session.commit([Create(path, record, ephemeral=kind is LockOwner)])


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
    done = NodeRole.of(state=State.ACTIVE, since=now, deployment=LAB, generation=1, serves=(ROLE,))
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
    _add_others(session)


def _of_daemons(session: Session, now: float) -> None:
    session.ensure(paths.JOURNAL_ENTRIES, paths.WEBHOOK_LOCK)
    session.commit([Append(paths.JOURNAL_ENTRIES, Entry(at=now, login="a", host="h", verb="node set"))])
    session._client.set(paths.WEBHOOK, codec.encode(Webhook(delivered=0, at=now)))
    holder = LockOwner(daemon="b", host="h", pid=1, purpose="p", since=now)
    session.commit([Create(f"{paths.WEBHOOK_LOCK}/0123__lock__0000000000", holder, ephemeral=True)])
    for kind in ("annealer", "builder"):
        session.ensure(paths.daemon_pauses(kind))
        paused = DaemonPause(pause=Maintenance(by="a test", since=now))
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
