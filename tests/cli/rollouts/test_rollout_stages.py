"""Rollouts whose phases name stages of a task list: real annealers, real machines; the machines write down what ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.rollouts.directing import RolloutRetry
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.processes import DaemonProcess
from tests.fixtures.commands import Ocb
from tests.fixtures.labs import lab

Ask = Callable[..., Json]

LIST = """\
- {{id: pre_deployment, type: stage}}
- {{id: deploy, type: stage, requires: [pre_deployment]}}
- {{id: post_deployment, type: stage, requires: [deploy]}}
- id: prep
  type: shell
  role: '*'
  required_for: [pre_deployment]
  parameters: {{cmd: 'echo prep-{{uid}} >> {place}/order; test ! -e {place}/broken-prep-{{uid}}', retries: 0, timeout: 60}}
- id: site
  type: shell
  role: [web]
  requires: [pre_deployment]
  required_for: [deploy]
  parameters: {{cmd: 'echo site-{{uid}} >> {place}/order; test ! -e {place}/broken-site-{{uid}}', retries: 0, timeout: 60}}
- id: after
  type: shell
  role: [web]
  requires: [site]
  required_for: [deploy]
  parameters: {{cmd: 'echo after-{{uid}} >> {place}/order', retries: 0, timeout: 60}}
- id: report
  type: shell
  role: '*'
  requires: [deploy]
  required_for: [post_deployment]
  parameters: {{cmd: 'echo report-{{uid}} >> {place}/order', retries: 0, timeout: 60}}
"""

STRATEGY = """\
phases:
  - {name: prepare, stages: [pre_deployment], timeout_seconds: 300}
  - {name: deploy, stages: [deploy], timeout_seconds: 300}
groups:
  - name: canary
    critical: true
    depends_on: []
    selectors: [{node_tags: [canary]}]
    success_criteria: {percent_successful_nodes: 100}
  - name: rest
    critical: true
    depends_on: [canary]
    selectors: []
    success_criteria: {percent_successful_nodes: 50}
"""


@pytest.fixture
def annealer(zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path, ocb: Ocb) -> Iterator[DaemonProcess]:
    """An annealer, and deployment lab with three machines that are web, the first of them the canary."""
    assert zk_session.connected
    with lab(ocb, zk_settings, tmp_path, 3, {1: ["canary"]}) as daemon:
        yield daemon


@pytest.fixture
def place(tmp_path: Path, ocb: Ocb, annealer: DaemonProcess) -> Path:
    """Where the tasks of deployment lab write; a file ``broken-TASK-UID`` there makes that fail."""
    assert annealer.pid
    (tmp_path / "place").mkdir()
    (tmp_path / "tasks.yaml").write_text(LIST.format(place=tmp_path / "place"))
    (tmp_path / "strategy.yaml").write_text(STRATEGY)
    answer = ocb("tasks", "upload", str(tmp_path / "tasks.yaml"), "--deployment", "lab")
    assert answer.exit_code == 0, answer.output
    return tmp_path / "place"


def start(place: Path, *more: str) -> tuple[str, ...]:
    file = str(place.parent / "strategy.yaml")
    return ("rollout", "start", file, "--deployment", "lab", "--facts-file", "none", *more)


WAIT = ("--wait", "--timeout", "60")


def order(place: Path) -> list[str]:
    """What ran, one after the other, as TASK-UID."""
    file = place / "order"
    return file.read_text().split() if file.exists() else []


def states(history: Json) -> dict[str, str]:
    return {
        f"{row['task']}@{row['node'].partition('.')[0]}" if row["node"] else row["task"]: row["state"]
        for row in history["instances"]
    }


def reasons(history: Json) -> dict[str, str]:
    return {f"{row['task']}@{(row['node'] or '').partition('.')[0]}": row["why"] for row in history["instances"]}


def test_each_group_goes_through_the_stages_before_the_next_begins(ocb: Ocb, ask: Ask, place: Path) -> None:
    answer = ocb(*start(place, *WAIT))
    assert answer.exit_code == 0, answer.output
    assert "1 task is before no stage that a phase names, and not run: report" in answer.stderr
    ran = order(place)
    assert ran[:3] == ["prep-1", "site-1", "after-1"]
    assert sorted(ran[3:5]) == ["prep-2", "prep-3"], "the stage is passed by both"
    assert sorted(ran[5:]) == ["after-2", "after-3", "site-2", "site-3"]
    assert ran.index("site-2") < ran.index("after-2")
    assert ocb("tasks", "wait", "lab", "--timeout", "60").exit_code == 0
    history = ask("tasks", "history", "lab")
    assert (history["state"], history["rollout"]) == ("successful", "lab/0000000000")
    assert ask("rollout", "show", "lab")["task_run"] == "lab/0000000000"
    found = states(history)
    assert {found[f"report@n{uid}"] for uid in (1, 2, 3)} == {"skipped"}
    assert found["deploy:canary"] == found["deploy:rest"] == "successful"
    assert reasons(history)["report@n2"] == "no phase of the rollout sends it"


def versions(session: Session) -> dict[str, int]:
    """The zxid of the last write of each noderole and each record of the run of tasks."""
    noderoles = [paths.noderole(vertex.role, vertex.node.name) for vertex in load_world(session).vertices()]
    wanted = [*noderoles, paths.task_runs("lab"), paths.task_run("lab", "0000000000")]
    return {znode.path: znode.mzxid for znode in session.get_many(wanted) if znode is not None}


def test_a_canary_that_fails_keeps_the_next_group_from_anything_and_a_retry_goes_on(
    ocb: Ocb, ask: Ask, place: Path, zk_session: Session
) -> None:
    (place / "broken-site-1").touch()
    answer = ocb(*start(place, *WAIT))
    assert answer.exit_code == 6, answer.output
    assert order(place) == ["prep-1", "site-1"]
    assert ocb("tasks", "wait", "lab", "--timeout", "60").exit_code == 6
    history = ask("tasks", "history", "lab")
    found = states(history)
    assert (found["site@n1"], found["after@n1"], found["prep@n2"]) == ("failed", "not run", "not run")
    assert reasons(history)["prep@n2"] == "rollout lab/0000000000 did not send it"
    assert reasons(history)["after@n1"] == "lab.site@n1.example.com failed"
    (place / "broken-site-1").unlink()
    before = versions(zk_session)
    assert ocb("rollout", "retry", "lab", "--dry-run").exit_code == 10
    assert versions(zk_session) == before, "a dry run writes nothing, of the run of tasks neither"
    assert ocb("rollout", "retry", "lab").exit_code == 0
    noted = (read.entry for read in journal.read(zk_session, journal.numbers(zk_session)))
    kinds = {each.kind for entry in noted if entry and entry.verb == "rollout retry" for each in entry.changes}
    assert kinds == {*RolloutRetry.writes}, "the operation declares the noderoles that wait again, too"
    answer = ocb("rollout", "wait", "lab", "--timeout", "60")
    assert answer.exit_code == 0, answer.output
    ran = order(place)
    assert ran[:4] == ["prep-1", "site-1", "site-1", "after-1"], "what succeeded is not run again"
    assert sorted(ran[4:6]) == ["prep-2", "prep-3"]
    assert ocb("tasks", "wait", "lab", "--timeout", "60").exit_code == 0
    assert [row["run"] for row in ask("tasks", "runs", "lab")] == ["lab/0000000000"]
