"""Heads and tables of runs of tasks, written and read without an annealer."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Set
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.tasks import runs
from nodepool_ocb.tasks.runs.records import Table, TaskRun, TaskRunState
from tests.annealer.tasks.task_staging import LAB, begin, build
from tests.store.tasks.first_run import stop

NODES = {"n1": ["controller"]}
TASKS = """
- {id: deploy, type: stage}
- {id: controller, type: group, role: [controller], required_for: [deploy], parameters: {strategy: {type: parallel}}}
- {id: setup, type: shell, required_for: [deploy], groups: [controller], parameters: {cmd: run.sh, timeout: 120}}
"""


@pytest.fixture
def run(zk_session: Session) -> str:
    build(zk_session, NODES)
    return begin(zk_session, TASKS, NODES)


def write(session: Session, run: str, **more: object) -> None:
    """Change the head of a run."""
    found = runs.read(session, LAB, run)
    assert found is not None
    session.commit([Set(paths.task_run(LAB, run), replace(found[0].head, **more), found[1].head)])


def test_a_run_is_listed_with_its_head_and_read_with_its_tasks(zk_session: Session, run: str) -> None:
    found = runs.read(zk_session, LAB, run)
    assert found is not None
    assert "setup" in found[0].definitions
    assert runs.list_(zk_session) == [runs.ListedTaskRun(LAB, run, found[0].head)]


def test_a_table_has_rows_and_belongs_to_a_run(zk_session: Session, run: str) -> None:
    assert runs.table(zk_session, LAB, run, Table.PLAN)
    assert runs.table(zk_session, LAB, run, Table.HISTORY) == []
    with pytest.raises(NotFound, match="there is no tasks run lab/0000000099"):
        runs.table(zk_session, LAB, "0000000099", Table.PLAN)


def test_a_broken_table_is_an_error_that_names_the_run(zk_session: Session, run: str) -> None:
    path = paths.task_run(LAB, run, f"{Table.DEFINITIONS}/0000")
    znode = zk_session.get(path)
    assert znode is not None
    zk_session.commit([Set(path, {"rows": [{"id": 7}]}, znode.version)])
    with pytest.raises(Invalid, match=paths.task_run(LAB, run)):
        runs.read(zk_session, LAB, run)


def test_a_stopped_run_notes_its_reason_and_is_written_once(zk_session: Session, run: str) -> None:
    before = runs.pointer(zk_session, LAB)[1]
    after = stop(zk_session, run, "ann", now=False)
    assert (after.stop, after.stopped_by, after.reason) == ("asked", "ann", "stopped by ann")
    written = runs.pointer(zk_session, LAB)[1]
    assert written == before + 1
    assert (stop(zk_session, run, "bob", now=False), runs.pointer(zk_session, LAB)[1]) == (after, written)
    assert stop(zk_session, run, "bob", now=True) == replace(after, stop="now")


def test_a_run_that_is_over_is_not_stopped(zk_session: Session, run: str) -> None:
    write(zk_session, run, state=TaskRunState.FAILED)
    assert isinstance(runs.list_(zk_session)[0].head, TaskRun)
    with pytest.raises(Conflict, match=f"tasks run lab/{run} is over: failed"):
        stop(zk_session, run, "ann", now=False)
