"""Runs of tasks on nodes that have no machine: each task is done by jig test, as a test says."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine import nodes as nodes_
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Deployment, DeploymentState, LockOwner, Node, Role
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.tasks import beginning, runs
from nodepool_ocb.store.tasks.beginning import NewTaskRun
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.compiling import compile
from nodepool_ocb.tasks.plan import Member
from nodepool_ocb.tasks.reading import read_texts
from nodepool_ocb.tasks.runs import making
from nodepool_ocb.tasks.runs.history import HistoryRow
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, TaskRun
from nodepool_ocb.testing.processes import DaemonProcess, await_that

LAB = "lab"
SECONDS = 60.0


def me() -> LockOwner:
    return LockOwner(daemon="test", host="here", pid=os.getpid(), purpose="a test", since=time.time())


def members(nodes: Mapping[str, Sequence[str]]) -> list[Member]:
    """Nodes by short names, in listing order, with their roles; the uid of ``n4`` is 4."""
    return [Member(name=fqdn(name), uid=name.lstrip("n"), roles=tuple(roles)) for name, roles in nodes.items()]


def fqdn(name: str) -> str:
    return f"{name}.example.com"


def build(session: Session, nodes: Mapping[str, Sequence[str]]) -> None:
    """A deployment, COMMITTED, with these nodes."""
    now = session.now()
    committed = Deployment(state=DeploymentState.COMMITTED, since=now)
    session.commit([Create(paths.deployment(LAB), committed), Create(paths.deployment_roles(LAB))])
    for name in nodes:
        made = nodes_.create(
            load_world(session), fqdn(name), Node(deployment=LAB, virtual=True), admin_domain=None, now=now
        )
        session.commit(made.changes)


def tested(role: Role, behaviour: Mapping[str, Mapping[str, Any]]) -> Role:
    """The role, done by jig test; ``behaviour``: by task, what its parameters are."""
    if role.jig == "noop":
        return role
    given = dict(behaviour.get(role.task or "", {}))
    return replace(role, jig="test", parameters=given, retries=0, backoff_seconds=0.0)


def begin(
    session: Session,
    text: str,
    nodes: Mapping[str, Sequence[str]],
    behaviour: Mapping[str, Mapping[str, Any]] | None = None,
    failing: Sequence[str] = (),
    **more: Any,
) -> str:
    """Begin a run; ``behaviour`` of tasks for jig test; ``failing``: TASK@NODE that fail, by short names."""
    running, wanted = made(text, nodes, behaviour, **more)
    facts: dict[str, dict[str, Any]] = {fqdn(name): {} for name in nodes}
    for each in failing:
        facts[fqdn(each.partition("@")[2])]["fail"] = f"{each} was told to"
    return beginning.begin(session, NewTaskRun(running=running, roles=wanted, facts={"common": {}, **facts}), me())


def made(
    text: str, nodes: Mapping[str, Sequence[str]], behaviour: Mapping[str, Mapping[str, Any]] | None = None, **more: Any
) -> tuple[LoadedTaskRun, dict[str, Role]]:
    """A run of a list, done by jig test."""
    tasks = read_texts({"tasks.yaml": text}, "test").tasks
    listed = members(nodes)
    plan = compile(tasks, listed, **more.pop("compiling", {}))
    tolerances = list(making.tolerances(tasks, plan))
    running, roles = making.run(LAB, tasks, plan, virtual="tasks-lab.internal", tolerances=tolerances, **more)
    return running, {name: tested(role, behaviour or {}) for name, role in roles.items()}


def read(session: Session, identity: str) -> LoadedTaskRun:
    found = runs.read(session, LAB, identity)
    assert found is not None
    return found[0]


def finished(session: Session, identity: str, annealer: DaemonProcess | None = None) -> TaskRun:
    """Its head, once it is over."""
    await_that(
        lambda: read(session, identity).head.over,
        SECONDS,
        f"run {identity} is over",
        alive=annealer.running if annealer else lambda: True,
    )
    return read(session, identity).head


def history(session: Session, identity: str) -> dict[str, HistoryRow]:
    """By TASK@NODE, with the short names of nodes; stages by their own."""
    world: World = load_world(session)
    found = runs.rows(session, world, read(session, identity))
    return {f"{row.task}@{row.node.partition('.')[0]}" if row.node else row.task: row for row in found}


def annealer(
    settings: ZooKeeperSettings, folder: Path, launcher: Sequence[str] = (), **environment: str
) -> DaemonProcess:
    """One that is to be started; ``launcher``: what is run in the place of the daemon."""
    own = {"annealer": {"sweep_seconds": 5.0, "log_dir": str(folder / "runs")}}
    daemon = DaemonProcess(settings, folder, own, launcher) if launcher else DaemonProcess(settings, folder, own)
    daemon.environment = environment
    return daemon
