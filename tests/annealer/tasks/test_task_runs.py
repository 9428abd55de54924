"""Runs of tasks, by real annealers: in the order of the plan, with every task accounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine import deployments, nodes
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Set, TaskRunPointer
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Locks
from nodepool_ocb.store.subtree import removal_as_judged
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.runs.history import HistoryRow
from nodepool_ocb.tasks.runs.records import Outcome, TaskRunState
from nodepool_ocb.tasks.selection import Selection
from nodepool_ocb.testing.processes import await_that
from tests.annealer.tasks.task_staging import LAB, annealer, begin, build, finished, history, me
from tests.fixtures.commands import Ocb
from tests.store.tasks.first_run import stop

NODES = {
    "n1": ["primary-controller"],
    "n4": ["controller"],
    "n2": ["controller"],
    "n3": ["controller"],
    "n5": ["controller"],
    "n6": ["cinder"],
    "n7": ["network"],
    "n8": ["compute"],
}

SEED = """
- {id: deploy, type: stage}
- {id: primary-controller, type: group, role: [primary-controller], required_for: [deploy],
   parameters: {strategy: {type: one_by_one}}}
- {id: controller, type: group, role: [controller], requires: [primary-controller], required_for: [deploy],
   parameters: {strategy: {type: parallel, amount: 2}}}
- {id: cinder, type: group, role: [cinder], requires: [controller], required_for: [deploy],
   parameters: {strategy: {type: parallel}}}
- {id: compute, type: group, role: [compute], requires: [controller], required_for: [deploy],
   parameters: {strategy: {type: parallel}}}
- {id: network, type: group, role: [network], requires: [controller], required_for: [compute, deploy],
   parameters: {strategy: {type: parallel}}}
- {id: setup_services, type: puppet, requires: [setup_network], required_for: [deploy],
   groups: [controller, primary-controller, compute, network, cinder],
   parameters: {puppet_manifest: /etc/puppet/manifests/controller.pp, puppet_modules: /etc/puppet/modules, timeout: 360}}
- {id: setup_network, type: shell, required_for: [deploy],
   groups: [controller, primary-controller, compute, network, cinder],
   parameters: {cmd: run_setup_network.sh, timeout: 120}}
"""

#: Each annealer asks ZooKeeper for the time, and the answer is as exact as it is quick. A task takes 0.2 s here.
AGREED_SECONDS = 0.1

DELAYS = {"setup_network": {"delay": 0.2}, "setup_services": {"delay": 0.2}}


def outcomes(rows: Mapping[str, HistoryRow]) -> dict[str, str]:
    return {name: row.outcome for name, row in rows.items() if "@" in name}


def follows(rows: Mapping[str, HistoryRow], first: Iterable[str], then: Iterable[str]) -> bool:
    """Whether everything on these nodes began when everything on those had ended, as far as two annealers agree about time."""
    tasks = ("setup_network", "setup_services")
    ends = [rows[f"{task}@{node}"].ended for node in first for task in tasks]
    begins = [rows[f"{task}@{node}"].started for node in then for task in tasks]
    return max(end for end in ends if end) <= min(start for start in begins if start) + AGREED_SECONDS


def test_the_seed_s_example_runs_in_the_seed_s_order(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    build(zk_session, NODES)
    with annealer(zk_settings, tmp_path / "one") as one, annealer(zk_settings, tmp_path / "two"):
        run = begin(zk_session, SEED, NODES, DELAYS)
        head = finished(zk_session, run, one)
    rows = history(zk_session, run)
    assert head.state is TaskRunState.SUCCESSFUL
    assert set(outcomes(rows).values()) == {Outcome.SUCCESSFUL}
    assert len(outcomes(rows)) == 16
    for first, then in (
        (["n1"], ["n4", "n2"]),
        (["n4", "n2"], ["n3", "n5"]),
        (["n3", "n5"], ["n6", "n7"]),
        (["n7"], ["n8"]),
    ):
        assert follows(rows, first, then), (first, then)
    side, other = rows["setup_network@n6"], rows["setup_network@n7"]
    assert (side.started or 0) < (other.ended or 0), "side by side"
    apart = 1.0  # the two annealers estimate ZooKeeper's clock, each with an error of half a round trip
    assert all(row.queued is not None and row.queued <= (row.started or 0) + apart for row in rows.values())


LINE = """
- {id: first, type: shell, role: [a], parameters: {cmd: x}}
- {id: second, type: shell, role: [a], requires: [first], parameters: {cmd: x}}
- {id: done, type: stage, requires: [second]}
- {id: third, type: shell, role: [a], requires: [done], parameters: {cmd: x}}
"""
TWO = {"n1": ["a"], "n2": ["a"]}


def test_a_failure_keeps_the_rest_of_its_node_and_the_stage_and_a_retry_goes_on_from_there(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    build(zk_session, TWO)
    with annealer(zk_settings, tmp_path / "one") as one:
        run = begin(zk_session, LINE, TWO, failing=["second@n2"])
        head = finished(zk_session, run, one)
        rows = history(zk_session, run)
        assert (head.state, outcomes(rows)) == (
            TaskRunState.FAILED,
            {
                "first@n1": "successful", "second@n1": "successful", "third@n1": "not run",
                "first@n2": "failed", "second@n2": "not run", "third@n2": "not run",
            },
        )  # fmt: skip
        assert rows["first@n2"].exit_code == 1
        assert rows["third@n1"].reason == "lab.first@n2.example.com failed"
        good = [(row.task, row.node) for row in rows.values() if row.outcome == Outcome.SUCCESSFUL]
        again = begin(zk_session, LINE, TWO, compiling={"done": good})
        assert finished(zk_session, again, one).state is TaskRunState.SUCCESSFUL
    after = history(zk_session, again)
    assert after["first@n1"].outcome == after["second@n1"].outcome == Outcome.SKIPPED
    assert {name for name, outcome in outcomes(after).items() if outcome == Outcome.SUCCESSFUL} == {
        "third@n1", "first@n2", "second@n2", "third@n2",
    }  # fmt: skip
    assert (after["second@n2"].ended or 0) <= (after["third@n1"].started or 0), "the stage waits for both"
    assert history(zk_session, run) == rows, "the history of a run does not change"


def test_a_second_run_does_everything_again_and_a_part_of_it_nothing_else(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    build(zk_session, TWO)
    with annealer(zk_settings, tmp_path / "one") as one:
        first = begin(zk_session, LINE, TWO)
        finished(zk_session, first, one)
        part = begin(zk_session, LINE, TWO, compiling={"selection": Selection(tasks=("first",))})
        assert finished(zk_session, part, one).state is TaskRunState.SUCCESSFUL
        runs_of = ended_runs(zk_session)
        whole = begin(zk_session, LINE, TWO)
        assert finished(zk_session, whole, one).state is TaskRunState.SUCCESSFUL
    assert runs_of == {"lab.first": 4, "lab.second": 2, "lab.third": 2}, "what is below is not run again"
    assert ended_runs(zk_session) == {"lab.first": 6, "lab.second": 4, "lab.third": 4}
    assert set(outcomes(history(zk_session, whole)).values()) == {Outcome.SUCCESSFUL}


def ended_runs(session: Session) -> dict[str, int]:
    """How often each role of a task was run, on all nodes."""
    world = load_world(session)
    counts: Counter[str] = Counter()
    for vertex in world.vertices():
        if vertex.role in ("lab.first", "lab.second", "lab.third"):
            counts[vertex.role] += len(session.children(paths.runs(vertex.role, vertex.node.name)) or ())
    return dict(counts)


def test_a_stop_lets_what_runs_end_and_nothing_else_begin(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    build(zk_session, TWO)
    with annealer(zk_settings, tmp_path / "one") as one:
        run = begin(zk_session, LINE, TWO, {"first": {"delay": 2.0}})
        await_that(
            lambda: "running" in outcomes(history(zk_session, run)).values(), 30.0, "a task runs", alive=one.running
        )
        stop(zk_session, run, "ann", now=False)
        head = finished(zk_session, run, one)
    assert (head.state, head.reason) == (TaskRunState.STOPPED, "stopped by ann")
    found = outcomes(history(zk_session, run))
    assert found["first@n1"] in (Outcome.SUCCESSFUL, Outcome.NOT_RUN)
    assert {found["second@n1"], found["second@n2"], found["third@n1"]} == {Outcome.NOT_RUN}


def test_a_stop_at_once_ends_what_runs(zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path) -> None:
    build(zk_session, TWO)
    with annealer(zk_settings, tmp_path / "one") as one:
        run = begin(zk_session, LINE, TWO, {"first": {"hang": True}})
        await_that(
            lambda: "running" in outcomes(history(zk_session, run)).values(), 30.0, "a task runs", alive=one.running
        )
        stop(zk_session, run, "ann", now=True)
        head = finished(zk_session, run, one)
    assert head.state is TaskRunState.STOPPED
    assert Outcome.FAILED in outcomes(history(zk_session, run)).values()


def test_of_two_that_begin_a_run_at_once_one_is_refused(zk_session: Session) -> None:
    build(zk_session, TWO)
    begin(zk_session, LINE, TWO)
    with pytest.raises(
        Conflict, match=r"tasks run lab/0000000000 is under way; wait for it: nodepool-ocb tasks wait lab"
    ):
        begin(zk_session, LINE, TWO)


def delete(session: Session, fqdn: str) -> None:
    """As the command does; raises Conflict where the node may not go."""
    world = load_world(session)
    assert {vertex.node.name for vertex in nodes.going(world.nodes[fqdn])} == {fqdn}, (
        "nothing of another node goes along"
    )
    deletions = removal_as_judged(session, world, paths.node(fqdn))
    for transaction in nodes.taking_away(world, fqdn, deletions):
        session.commit(transaction)


def test_a_node_may_be_deleted_when_the_run_is_over(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    build(zk_session, TWO)
    with annealer(zk_settings, tmp_path / "one") as one:
        run = begin(zk_session, LINE, TWO)
        finished(zk_session, run, one)
        before = history(zk_session, run)
        delete(zk_session, "n2.example.com")
        again = begin(zk_session, LINE, {"n1": ["a"]})
        assert finished(zk_session, again, one).state is TaskRunState.SUCCESSFUL
    assert history(zk_session, run) == before


@pytest.mark.long
def test_another_annealer_goes_on_with_a_run_whose_driver_was_killed(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    build(zk_session, NODES)
    with annealer(zk_settings, tmp_path / "one") as one, annealer(zk_settings, tmp_path / "two") as two:
        run = begin(zk_session, SEED, NODES, DELAYS)
        await_that(
            lambda: "running" in outcomes(history(zk_session, run)).values(), 30.0, "a task runs", alive=one.running
        )
        world = load_world(zk_session)
        driver = world.annealers[world.task_runs[LAB].record.driver or ""]
        killed, other = (one, two) if driver.pid == one.pid else (two, one)
        killed.kill()
        head = finished(zk_session, run, other)
    rows = history(zk_session, run)
    assert head.state is TaskRunState.SUCCESSFUL
    for first, then in ((["n1"], ["n4", "n2"]), (["n4", "n2"], ["n3", "n5"]), (["n7"], ["n8"])):
        assert follows(rows, first, then), (first, then)


def test_a_deployment_takes_everything_of_its_tasks_along(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path, ocb: Ocb
) -> None:
    build(zk_session, {"n1": ["a"]})
    with annealer(zk_settings, tmp_path / "one") as one:
        run = begin(zk_session, LINE, {"n1": ["a"]})
        refused = ocb("deployment", "delete", LAB, "--yes")
        assert refused.exit_code == 4
        assert "still holds node n1.example.com" in refused.output
        finished(zk_session, run, one)
    assert ocb("node", "delete", "n1.example.com", "--yes").exit_code == 0
    deleted = ocb("deployment", "delete", LAB, "--yes")
    assert deleted.exit_code == 0, deleted.output
    world = load_world(zk_session)
    assert (list(world.nodes), list(world.roles), list(world.task_runs)) == ([], [], [])
    assert zk_session.get(paths.task_runs(LAB)) is None
    build(zk_session, {"n1": ["a"]})
    assert int(begin(zk_session, LINE, {"n1": ["a"]})) > int(run), "no number is given twice"


def test_a_deployment_goes_although_a_run_was_prepared_by_somebody_who_died(
    zk_session: Session, zk_settings: ZooKeeperSettings, ocb: Ocb
) -> None:
    build(zk_session, {})
    zk_session.ensure(paths.TASK_RUNS)
    zk_session.commit([Create(paths.task_runs(LAB), TaskRunPointer(preparing="0000000000"))])
    zk_session.commit([Create(paths.task_run(LAB, "0000000000"))])
    with Session(zk_settings) as other:
        assert Locks(other).take(paths.task_run_lock(LAB, "0000000000"), me()) is not None
        refused = ocb("deployment", "delete", LAB, "--yes")
        assert (refused.exit_code, "is being prepared by test on here" in refused.output) == (4, True)
    deleted = ocb("deployment", "delete", LAB, "--yes")
    assert deleted.exit_code == 0, deleted.output


def test_a_deployment_whose_tasks_run_is_not_deleted(zk_session: Session) -> None:
    build(zk_session, {"n1": ["a"]})
    begin(zk_session, LINE, {"n1": ["a"]})
    world = load_world(zk_session)
    world.drop_node("n1.example.com")
    with pytest.raises(Conflict, match="tasks run lab/0000000000 is under way"):
        deployments.deletable(world, LAB)


def test_a_run_of_tasks_under_way_keeps_its_nodes_and_noderoles_from_people(zk_session: Session, ocb: Ocb) -> None:
    build(zk_session, TWO)
    run = begin(zk_session, LINE, TWO)
    names = sorted(vertex.name for vertex in load_world(zk_session).vertices())
    lines = [f"noderole unbind {name} --yes" for name in names]
    lines += [
        "node delete n1.example.com --yes",
        "node move n1.example.com system",
        "node rename n1.example.com n9.example.com",
    ]
    for line in lines:
        refused = ocb(*line.split())
        said = (
            f"tasks run {LAB}/{run}" in refused.stderr
            and f"or end it: nodepool-ocb tasks stop {LAB}/{run}" in refused.stderr
        )
        assert (refused.exit_code, said) == (4, True), (line, refused.output)
    assert sorted(vertex.name for vertex in load_world(zk_session).vertices()) == names


def test_a_preparation_that_broke_off_is_ended_by_a_stop_and_keeps_nothing_then(zk_session: Session, ocb: Ocb) -> None:
    build(zk_session, TWO)
    run = begin(zk_session, LINE, TWO)
    pointer = load_world(zk_session).task_runs[LAB]
    broken = TaskRunPointer(newest=None, preparing=run)  # as after a kill between the bind and the beginning
    zk_session.commit([Set(paths.task_runs(LAB), broken, pointer.version)])
    assert f"tasks run {LAB}/{run} is being prepared" in ocb("node", "delete", "n1.example.com", "--yes").stderr
    stopped = ocb("tasks", "stop", LAB)
    assert (stopped.exit_code, "broke off; nothing of it will run" in stopped.stderr) == (0, True), stopped.output
    for vertex in list(load_world(zk_session).vertices()):
        if vertex.name in {each.name for each in load_world(zk_session).vertices()}:
            assert ocb("noderole", "unbind", vertex.name, "--yes").exit_code == 0


def test_of_what_may_start_on_a_node_that_with_the_most_below_it_goes_first(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    tasks = [("a", ""), ("b", ""), ("c", "requires: [b], "), ("d", "requires: [c], ")]
    text = "\n".join(f"- {{id: {name}, type: shell, role: [a], {more}parameters: {{cmd: x}}}}" for name, more in tasks)
    build(zk_session, {"n1": ["a"]})
    with annealer(zk_settings, tmp_path / "one") as one:
        run = begin(zk_session, text, {"n1": ["a"]})
        finished(zk_session, run, one)
    rows = history(zk_session, run)
    assert sorted(rows, key=lambda name: rows[name].started or 0)[0] == "b@n1", "a is alone, and first by name"
    assert (rows["c@n1"].started or 0) < (rows["a@n1"].started or 0)
