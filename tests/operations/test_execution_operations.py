"""Rollouts and runs of tasks that are followed, begun and directed without a command line."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import DeploymentState, Set
from nodepool_ocb.operations.executions.following import moments
from nodepool_ocb.operations.rollouts import strategies, watching
from nodepool_ocb.operations.rollouts.directing import RolloutCancel, RolloutResume
from nodepool_ocb.operations.rollouts.starting import RolloutPlanning, RolloutStart
from nodepool_ocb.operations.tasks import runs as taskruns
from nodepool_ocb.operations.tasks.runs import TasksHistory
from nodepool_ocb.operations.tasks.stopping import TasksStop
from nodepool_ocb.rollout import reading
from nodepool_ocb.store import journal, rollouts
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.tasks import runs
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server
from tests.annealer.tasks import task_staging
from tests.annealer.tasks.task_staging import begin, fqdn
from tests.cli.rollouts.driving import LAB, STRATEGY, Driver, build
from tests.fixtures.lossy_proxy import lost_answer
from tests.operations.performing import InterruptedPerformer, calm, faster_writer
from tests.store.tasks.first_run import point, write

NODES = {"n1": ["a"]}
TASKS = """
- {id: one, type: shell, role: [a], parameters: {cmd: x}}
- {id: two, type: shell, role: [a], requires: [one], parameters: {cmd: x}}
"""


@pytest.fixture
def site(zk_session: Session) -> Session:
    """The seed's five groups on twelve nodes."""
    build(zk_session)
    return zk_session


@pytest.fixture
def run(zk_session: Session) -> str:
    """The first run of tasks of deployment lab."""
    task_staging.build(zk_session, NODES)
    return begin(zk_session, TASKS, NODES)


def start(**more: Any) -> RolloutStart:
    return RolloutStart(strategy=reading.load(STRATEGY, called="site.yaml"), deployment=LAB, **more)


# -- start --


def test_a_start_writes_the_rollout_and_the_journal_names_it(site: Session, zk_settings: ZooKeeperSettings) -> None:
    mine = calm(zk_settings)
    begun = mine.perform(start()).answer
    assert begun.key == Key(LAB, "0000000000")
    assert begun.row is not None
    assert (begun.row.state, begun.row.by, begun.row.groups) == ("running", "ann", 5)
    assert rollouts.newest(site, LAB) == "0000000000"
    written = [read.entry for read in journal.read(site, journal.numbers(site)) if read.entry is not None]
    assert {(each.login, each.verb) for each in written} == {("ann", "rollout start")}
    assert mine.heard.notes[-1].startswith("no annealer is running: nothing of it moves; ")


def test_a_dry_run_of_a_start_gives_the_plan_and_writes_nothing(site: Session, zk_settings: ZooKeeperSettings) -> None:
    begun = calm(zk_settings, dry_run=True).perform(start()).answer
    assert (begun.key, begun.empty, begun.planned.deployment) == (None, False, LAB)
    assert site.children(paths.ROLLOUTS) in (None, [])


def test_a_deployment_that_changes_while_a_rollout_begins_keeps_it_from_beginning(
    site: Session, zk_settings: ZooKeeperSettings
) -> None:
    def changed() -> None:
        stored = load_world(site).deployments[LAB]
        site.commit(
            [Set(paths.deployment(LAB), replace(stored.record, state=DeploymentState.PROPOSED), stored.version)]
        )

    mine = InterruptedPerformer(zk_settings, changed)
    with pytest.raises(Conflict) as refused:
        mine.perform(start())
    assert (type(refused.value), mine.reads) == (Conflict, 1), "a procedure that gave up is not tried again"
    assert rollouts.newest(site, LAB) is None
    assert site.children(paths.rollouts(LAB)) == []


def test_of_two_starts_one_is_refused_with_the_name_of_the_other(site: Session, zk_settings: ZooKeeperSettings) -> None:
    refused = pytest.raises(Conflict, match="rollout lab/0000000000 is under way")
    with faster_writer(lambda: calm(zk_settings).perform(start())), refused:
        calm(zk_settings).perform(start())
    assert [each.id for each in rollouts.list_(site)] == ["0000000000"]


@pytest.mark.parametrize("at", range(1, 8))
def test_a_start_with_a_lost_answer_begins_one_rollout(
    site: Session, zookeeper: Server, zk_settings: ZooKeeperSettings, chroot: str, at: int
) -> None:
    with lost_answer(zookeeper, at) as (proxy, _):
        begun = calm(replace(zk_settings, hosts=proxy.hosts + chroot)).perform(start()).answer
    assert begun.key is not None
    assert [each.id for each in rollouts.list_(site)] == [begun.key.id]
    assert rollouts.newest(site, LAB) == begun.key.id


def test_a_plan_names_groups_that_cannot_meet_their_criteria(site: Session, zk_settings: ZooKeeperSettings) -> None:
    assert site.connected
    few = STRATEGY.replace("minimum_successful_nodes: 3", "minimum_successful_nodes: 30")
    strategy = reading.load(few, called="site.yaml")
    planned = calm(zk_settings).perform(RolloutPlanning(strategy=strategy, deployment=LAB)).answer
    assert [each.partition(":")[0] for each in planned.problems] == ["group control-nodes"]
    whole = calm(zk_settings).perform(RolloutPlanning()).answer
    assert (whole.deployment, whole.strategy, whole.problems) == (LAB, strategies.whole(), ())


# -- following --


def test_a_rollout_is_followed_until_it_is_gone(site: Session, zk_settings: ZooKeeperSettings) -> None:
    key = calm(zk_settings).perform(start()).answer.key
    assert key is not None
    seen: list[str | None] = []
    for moment in moments(calm(zk_settings), watching.WATCHED, key, None):
        seen.append(None if moment.found is None else str(moment.found.rollout.head.state))
        if moment.found is None:
            break
        if not moment.found.over:
            Driver(site).run()
        else:
            znode = site.get(paths.rollout(*key))
            assert znode is not None
            site.commit([Set(znode.path, None, znode.version)])
    assert (seen[0], seen[-2:]) == ("running", ["success", None])
    assert not moment.annealers


def test_each_kind_of_execution_is_followed_in_its_own_way(
    zk_session: Session, zk_settings: ZooKeeperSettings, run: str
) -> None:
    key = Key(task_staging.LAB, run)
    following = moments(calm(zk_settings), taskruns.WATCHED, key, None)
    first = next(following).found
    assert first is not None
    assert {row.state for row in first.instances} == {"pending"}
    write(zk_session, stop="asked", reason="stopped by bob")
    second = next(following).found
    assert second is not None
    assert (second.head.reason, taskruns.end(second)) == ("stopped by bob", None)
    assert (taskruns.WATCHED.every_tick, watching.WATCHED.every_tick) == (True, False)
    following.close()  # type: ignore[attr-defined]


# -- stop --


def test_a_stop_that_meets_a_driver_decides_again(
    zk_session: Session, zk_settings: ZooKeeperSettings, run: str
) -> None:
    with faster_writer(lambda: point(zk_session, since=7.0)):
        stopped = calm(zk_settings).perform(TasksStop(run=f"{task_staging.LAB}/{run}")).answer
    assert stopped.row is not None
    assert stopped.row.reason == "stopped by ann"


def test_a_stop_with_a_lost_answer_is_written_one_time(
    zk_session: Session, zookeeper: Server, zk_settings: ZooKeeperSettings, chroot: str, run: str
) -> None:
    assert runs.pointer(zk_session, task_staging.LAB)[0].newest == run
    before = runs.pointer(zk_session, task_staging.LAB)[1]
    with lost_answer(zookeeper) as (proxy, met):
        calm(replace(zk_settings, hosts=proxy.hosts + chroot)).perform(TasksStop(run=task_staging.LAB))
    assert (len(met), runs.pointer(zk_session, task_staging.LAB)[1]) == (1, before + 1)


def test_a_dry_run_of_a_stop_names_the_preparation_that_it_would_end(
    zk_session: Session, zk_settings: ZooKeeperSettings, run: str
) -> None:
    point(zk_session, over=True, preparing="0000000005")
    dry = calm(zk_settings, dry_run=True).perform(TasksStop(run=task_staging.LAB))
    assert [(row.kind, row.name) for row in dry.rows] == [("run of tasks", task_staging.LAB)]
    assert runs.pointer(zk_session, task_staging.LAB)[0].preparing == "0000000005"
    done = calm(zk_settings).perform(TasksStop(run=task_staging.LAB))
    assert done.answer.notes == ("the preparation of tasks run lab/0000000005 broke off; nothing of it will run",)
    assert runs.pointer(zk_session, task_staging.LAB)[0].preparing is None
    assert runs.read(zk_session, task_staging.LAB, run) is not None


def test_a_history_names_the_run_and_refuses_one_that_is_gone(
    zk_session: Session, zk_settings: ZooKeeperSettings, run: str
) -> None:
    assert zk_session.connected
    found = calm(zk_settings).perform(TasksHistory(run=task_staging.LAB, tasks=("two",))).answer
    assert (found.row.run, [row.name for row in found.instances]) == (f"lab/{run}", [f"two@{fqdn('n1')}"])
    with pytest.raises(NotFound, match=r"there is no tasks run lab/0000000007; see: nodepool-ocb tasks runs lab"):
        calm(zk_settings).perform(TasksHistory(run="lab/7"))


# -- resume --


def test_a_rollout_that_resumes_meets_another_that_begins(site: Session, zk_settings: ZooKeeperSettings) -> None:
    calm(zk_settings).perform(start())
    calm(zk_settings).perform(RolloutCancel())
    Driver(site).run()
    refused = pytest.raises(
        Conflict, match="rollout 0000000000 is not the newest of deployment lab; that is 0000000001"
    )
    with faster_writer(lambda: calm(zk_settings).perform(start(force=True))), refused:
        calm(zk_settings).perform(RolloutResume(rollout="lab/0"))
