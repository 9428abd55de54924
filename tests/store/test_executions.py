"""Executions: writes that are refused are tried again, and the versions after a write are known without a read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nodepool_ocb.errors import Conflict, OutcomeUnknown, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import ROLLOUT, TASK_RUN, Versions
from nodepool_ocb.model.records import Check, RolloutPointer, Set, TaskRunPointer
from nodepool_ocb.rollout.records import NodesRecord
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.driven.executions import TASK_RUNS
from nodepool_ocb.store.driven.pointers import ATTEMPTS, again
from nodepool_ocb.tasks.runs.records import TaskRun, TaskRunState

ID = "0000000003"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The attempts before which a pause was made."""
    made: list[int] = []
    monkeypatch.setattr(pointers, "pause", made.append)
    return made


def refused(times: int, error: Exception) -> Callable[[], str]:
    """A write that is refused so often."""
    left = [error] * times

    def write() -> str:
        if left:
            raise left.pop()
        return "written"

    return write


def test_a_write_that_is_refused_is_tried_again_after_a_pause(pauses: list[int]) -> None:
    assert again(refused(3, Stale("moved", "/a"))) == "written"
    assert pauses == [0, 1, 2]
    assert again(refused(ATTEMPTS - 1, OutcomeUnknown("lost")), (Stale, OutcomeUnknown)) == "written"


def test_the_last_refusal_is_raised_and_others_are_not_tried_again(pauses: list[int]) -> None:
    with pytest.raises(Stale, match="moved"):
        again(refused(ATTEMPTS, Stale("moved", "/a")))
    assert len(pauses) == ATTEMPTS - 1
    pauses.clear()
    for error in (OutcomeUnknown("lost"), Conflict("no")):
        with pytest.raises(type(error)):
            again(refused(1, error))
    assert pauses == []


def test_a_refusal_of_the_check_that_was_judged_is_raised_at_once(pauses: list[int]) -> None:
    final = pointers.among([Check("/a", 3)])
    with pytest.raises(Stale, match="moved"):
        again(refused(1, Stale("moved", "/a")), final=final)
    assert pauses == []
    assert again(refused(1, Stale("moved", "/b")), final=final) == "written"


@pytest.mark.parametrize(
    ("kind", "pointer", "part"),
    [
        (ROLLOUT, RolloutPointer(newest=ID), NodesRecord(nodes={})),
        (TASK_RUN, TaskRunPointer(newest=ID), {"rows": []}),
    ],
)
def test_the_versions_after_a_write_are_those_that_a_reader_finds(kind: Any, pointer: Any, part: Any) -> None:
    before = Versions(type(pointer)(), 4, {"": 1, "nodes/0000": 2, "nodes/0001": 5})
    changes = [
        Set(kind.pointer_path("lab"), pointer, 4),
        Set(kind.path("lab", ID), TaskRun(state=TaskRunState.RUNNING, virtual="v"), 1),
        Set(kind.path("lab", ID, "nodes/0000"), part, 2),
        Set(kind.path("lab", "0000000004", "nodes/0001"), part, 5),  # another's
        Check(kind.path("lab", ID, "nodes/0001"), 5),
    ]
    after = kind.written("lab", ID, before, changes)
    assert after == Versions(pointer, 5, {"": 2, "nodes/0000": 3, "nodes/0001": 5})
    assert after.head == 2
    assert kind.written("lab", ID, before, [Check(kind.pointer_path("lab"), 4)]) == before


def test_only_executions_that_were_begun_and_can_be_read_are_listed(zk_session: Session) -> None:
    session = zk_session
    assert (TASK_RUNS.listed(session), TASK_RUNS.head(session, "lab", ID)) == ([], None)
    assert TASK_RUNS.pointer(session, "lab") == (TaskRunPointer(), -1)
    head = TaskRun(state=TaskRunState.RUNNING, virtual="v")
    for deployment, znodes in (
        ("lab", {ID: head, "0000000002": head, "0000000004": None, "lock": head}),
        ("a", {ID: head}),
    ):
        for name, record in znodes.items():
            session.ensure(path := paths.task_run(deployment, name))
            if record is not None:
                session.commit([Set(path, record, 0)])
    session.ensure(broken := paths.task_run("lab", "0000000005"))
    session.commit([Set(broken, {"state": 7}, 0)])
    listed = [("lab", "0000000002", head), ("lab", ID, head)]
    assert TASK_RUNS.listed(session) == [("a", ID, head), *listed]
    assert TASK_RUNS.listed(session, ["lab", "none"]) == listed
    found = TASK_RUNS.head(session, "lab", ID)
    assert found is not None
    assert (found[0].version, found[1]) == (1, head)
    assert TASK_RUNS.head(session, "lab", "0000000004") is None
