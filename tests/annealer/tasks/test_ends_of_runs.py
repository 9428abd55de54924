"""How runs of tasks end: with machines that are away, before anything began, after many tasks, and one after another."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Set
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.runs.records import Outcome, TaskRunState
from nodepool_ocb.tasks.selection import Selection
from tests.annealer.tasks import patient_annealer
from tests.annealer.tasks.task_staging import annealer, begin, build, finished, fqdn, history
from tests.store.tasks.first_run import stop

TWO = {"n1": ["a"], "n2": ["a"]}
LINE = """
- {id: first, type: shell, role: [a], parameters: {cmd: x}}
- {id: second, type: shell, role: [a], requires: [first], parameters: {cmd: x}}
- {id: done, type: stage, requires: [second]}
- {id: third, type: shell, role: [a], requires: [done], parameters: {cmd: x}}
"""


def test_of_a_run_that_is_stopped_before_it_began_every_task_is_not_run(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    build(zk_session, TWO)
    run = begin(zk_session, LINE, TWO)
    stop(zk_session, run, "ann", now=False)
    with annealer(zk_settings, tmp_path / "one") as one:
        head = finished(zk_session, run, one)
    rows = history(zk_session, run)
    assert {(row.outcome, row.reason) for row in rows.values()} == {(Outcome.NOT_RUN, "stopped by ann")}
    assert (head.state, head.counts) == (TaskRunState.STOPPED, {Outcome.NOT_RUN: 7})


def test_a_history_of_more_tasks_than_are_read_at_once_is_written(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    build(zk_session, TWO)
    with annealer(zk_settings, tmp_path / "one", (patient_annealer.__file__,)) as one:
        run = begin(zk_session, LINE, TWO)
        assert finished(zk_session, run, one).state is TaskRunState.SUCCESSFUL
    assert all(row.ended for row in history(zk_session, run).values())


KNOT = """
- {id: one, type: shell, role: [a], parameters: {cmd: x}}
- {id: two, type: shell, role: [a], parameters: {cmd: x}}
- {id: both, type: shell, role: [a], requires: [one, two], parameters: {cmd: x}}
"""


def test_two_tasks_run_again_without_what_waited_for_both(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    build(zk_session, TWO)
    with annealer(zk_settings, tmp_path / "one") as one:
        finished(zk_session, begin(zk_session, KNOT, TWO), one)
        part = begin(zk_session, KNOT, TWO, compiling={"selection": Selection(tasks=("one", "two"))})
        assert finished(zk_session, part, one).state is TaskRunState.SUCCESSFUL


GROUPS = """
- {id: web, type: group, role: [a], fault_tolerance: 1}
- {id: site, type: shell, groups: [web], parameters: {cmd: x}}
- {id: last, type: group, role: [b], requires: [web]}
- {id: report, type: shell, groups: [last], parameters: {cmd: x}}
"""
FOUR = {"n1": ["a"], "n2": ["a"], "n3": ["a"], "n4": ["b"]}


def away(session: Session, *names: str) -> None:
    """These machines do not answer since long ago."""
    for name in names:
        view = load_world(session).nodes[fqdn(name)]
        assert view.record is not None
        gone = replace(view.record, virtual=False, alive=False, since=session.now() - 60.0)
        session.commit([Set(paths.node(view.name), gone, view.version)])


def test_a_machine_that_is_away_is_borne_as_one_that_failed(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    build(zk_session, FOUR)
    away(zk_session, "n2")
    with annealer(zk_settings, tmp_path / "one") as one:
        run = begin(zk_session, GROUPS, FOUR, patience_seconds=5.0)
        head = finished(zk_session, run, one)
    rows = history(zk_session, run)
    assert rows["site@n2"].outcome == Outcome.NOT_RUN
    assert rows["report@n4"].outcome == Outcome.SUCCESSFUL
    assert (head.state, head.reason) == (TaskRunState.SUCCESSFUL, "failed, as their groups tolerate: n2.example.com")
