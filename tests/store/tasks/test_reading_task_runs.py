"""Runs of tasks as they are listed, read, stopped and ended; the pointer of the deployment orders all writers."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.client import KazooClient
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Conflict, Invalid, NotFound, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import Check, Create, Delete, RolloutPointer, Run, Set, TaskRunPointer
from nodepool_ocb.operations import performer
from nodepool_ocb.operations.tasks.runs import find
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.driven.pointers import ATTEMPTS
from nodepool_ocb.store.tasks import rolled, runs
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.runs import commands
from nodepool_ocb.tasks.runs.history import HistoryRow
from nodepool_ocb.tasks.runs.records import Outcome, Table, TaskRun, TaskRunState
from tests.annealer.tasks.task_staging import LAB, begin, build, fqdn
from tests.operations.performing import calm
from tests.store.tasks.first_run import RUN, point, read, stop, write
from tests.store.test_rollouts import rollout

NODES = {"n1": ["a"]}
TASKS = """
- {id: one, type: shell, role: [a], parameters: {cmd: x}}
- {id: two, type: shell, role: [a], requires: [one], parameters: {cmd: x}}
- {id: off, type: skipped, role: [a]}
"""


@pytest.fixture
def session(zk_session: Session) -> Session:
    """With one run of tasks, whose id is ``RUN``."""
    build(zk_session, NODES)
    assert begin(zk_session, TASKS, NODES) == RUN
    return zk_session


@pytest.mark.parametrize(("word", "identity"), [(None, RUN), ("0", RUN), ("12", "0000000012"), (RUN, RUN)])
def test_a_run_is_named_by_its_number_and_the_newest_by_none(
    session: Session, zk_settings: ZooKeeperSettings, word: str | None, identity: str
) -> None:
    named = LAB if word is None else f"{LAB}/{word}"
    assert calm(zk_settings).read(find(named), session) == Key(LAB, identity)


@pytest.mark.parametrize("word", ["x", "-1", "", "1.0", "\u0663", "12345678901"])
def test_a_word_that_is_no_number_names_no_run(word: str) -> None:
    with pytest.raises(NotFound, match="is not the number of a run; see: nodepool-ocb tasks history lab"):
        commands.numbered(LAB, word)


def test_of_a_deployment_without_runs_none_is_chosen(zk_session: Session, zk_settings: ZooKeeperSettings) -> None:
    build(zk_session, NODES)
    with pytest.raises(
        NotFound, match="no tasks were run in deployment lab; first: nodepool-ocb tasks run --deployment lab"
    ):
        calm(zk_settings).read(find(LAB), zk_session)
    assert (runs.list_(zk_session), runs.under_way(zk_session)) == ([], [])


def test_a_run_is_read_with_its_plan_and_the_tasks_that_were_skipped(session: Session) -> None:
    running, versions = read(session)
    assert {running.plan.tasks[at] for at in running.plan.task_of} == {"one", "two"}
    assert [(task, node) for task, node, _ in running.skipped] == [("off", fqdn("n1"))]
    assert set(running.definitions) >= {"one", "two"}
    assert (versions.pointer, versions.version) == runs.pointer(session, LAB)
    znode = session.get(paths.task_run(LAB, RUN))
    assert znode is not None
    assert versions.head == znode.version


def test_a_run_that_is_not_there_or_was_never_begun_is_not_read(session: Session) -> None:
    session.commit([Create(paths.task_run(LAB, "0000000005"))])
    for identity in ("0000000005", "0000000006"):
        assert runs.read(session, LAB, identity) is None
        with pytest.raises(NotFound, match=f"there is no tasks run lab/{identity}; see: nodepool-ocb tasks runs lab"):
            runs.table(session, LAB, identity, Table.PLAN)
        with pytest.raises(NotFound, match=f"there is no tasks run lab/{identity}; see: nodepool-ocb tasks runs lab"):
            stop(session, identity, "ann", now=False)
    assert [each.id for each in runs.list_(session)] == [RUN]


def test_a_table_of_which_a_part_is_missing_has_no_rows(session: Session) -> None:
    session.commit([Delete(paths.task_run(LAB, RUN, "plan/0000"), 0)])
    assert runs.table(session, LAB, RUN, Table.PLAN) == []
    assert runs.table(session, LAB, RUN, Table.SKIPPED) != []


def test_a_run_that_is_being_deleted_is_not_read_whole(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "pause", lambda attempt: attempts.append(attempt))
    attempts: list[int] = []
    session.commit([Delete(paths.task_run(LAB, RUN, "plan/0000"), 0)])
    with pytest.raises(Stale, match="is changed on and on; read it again") as refused:
        runs.read(session, LAB, RUN)
    assert refused.value.path == paths.task_runs(LAB)
    assert attempts == list(range(ATTEMPTS))


def test_a_run_that_is_written_while_it_is_read_is_read_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, writes = runs._rows, [7.0]

    def meanwhile(*given: Any) -> Any:
        found = rows(*given)
        if writes:
            point(session, since=writes.pop())
        return found

    monkeypatch.setattr(runs, "_rows", meanwhile)
    assert read(session)[1].pointer.since == 7.0


def test_lists_have_what_can_be_read_by_deployment_the_oldest_first(session: Session, kazoo: KazooClient) -> None:
    head = read(session)[0].head
    for deployment in ("west", "east"):
        session.commit([Create(paths.task_runs(deployment), TaskRunPointer(newest="0000000002", preparing=None))])
        for identity in ("0000000002", "0000000001"):
            session.commit([Create(paths.task_run(deployment, identity), replace(head, by=deployment))])
    session.ensure(paths.task_run("west", "notes"))
    kazoo.set(paths.task_run("west", "0000000001"), b"garbage")
    assert [(each.deployment, each.id, each.head.by) for each in runs.list_(session)] == [
        ("east", "0000000001", "east"),
        ("east", "0000000002", "east"),
        (LAB, RUN, head.by),
        ("west", "0000000002", "west"),
    ]
    assert [each.deployment for each in runs.list_(session, ["west", LAB, "none"])] == [LAB, "west"]
    assert runs.list_(session, []) == []


def test_a_run_is_under_way_until_its_pointer_is_over(session: Session, kazoo: KazooClient) -> None:
    session.commit(
        [Create(paths.task_runs("west"), TaskRunPointer(newest="0000000001", over=False, preparing="0000000002"))]
    )
    session.commit([Create(paths.task_runs("east"), TaskRunPointer())])
    session.commit([Create(paths.task_runs("torn"))])
    kazoo.set(paths.task_runs("torn"), b"garbage")
    assert runs.under_way(session) == [(LAB, RUN), ("west", "0000000002"), ("west", "0000000001")]
    point(session, over=True)
    assert runs.under_way(session) == [("west", "0000000002"), ("west", "0000000001")]


# -- stopping --


def test_a_run_is_stopped_once_and_keeps_the_first_reason(session: Session) -> None:
    write(session, reason="a task failed")
    before = runs.pointer(session, LAB)
    after = stop(session, RUN, "ann", now=False)
    assert (after.stop, after.stopped_by, after.reason) == ("asked", "ann", "a task failed")
    running, versions = read(session)
    assert running.head == after
    assert versions.version == before[1] + 1
    assert versions.pointer == replace(before[0], since=versions.pointer.since)
    assert versions.pointer.since > before[0].since
    assert stop(session, RUN, "bob", now=False) == after
    assert read(session)[1] == versions
    ended = stop(session, RUN, "bob", now=True)
    assert ended == replace(after, stop="now") == read(session)[0].head
    assert stop(session, RUN, "bob", now=False) == ended


def test_a_run_is_stopped_also_where_its_driver_writes_meanwhile(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, writes = commands.stop, [7.0]

    def meanwhile(*given: Any, **named: Any) -> Any:
        found = stopping(*given, **named)
        if writes:
            point(session, since=writes.pop())
        return found

    monkeypatch.setattr(commands, "stop", meanwhile)
    assert stop(session, RUN, "ann", now=True).stop == "now"
    assert read(session)[0].head.stop == "now"


def test_a_run_on_whose_pointer_others_write_on_and_on_is_not_stopped(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = commands.stop

    def meanwhile(*given: Any, **named: Any) -> Any:
        found = stopping(*given, **named)
        point(session, over=False)
        return found

    monkeypatch.setattr(commands, "stop", meanwhile)
    monkeypatch.setattr(performer, "LONGEST_PAUSE_SECONDS", 0.02)  # it tries forty times
    with pytest.raises(Stale):
        stop(session, RUN, "ann", now=True)
    assert read(session)[0].head.stop is None


@pytest.mark.parametrize("case", ["it is over", "a newer one was begun"])
def test_a_run_that_is_not_under_way_is_not_stopped(session: Session, case: str) -> None:
    if case == "it is over":
        write(session, state=TaskRunState.SUCCESSFUL)
    else:
        point(session, newest="0000000001")
    with pytest.raises(Conflict, match=f"tasks run lab/{RUN} is over: "):
        stop(session, RUN, "ann", now=True)


@pytest.mark.parametrize("case", ["under way", "over", "another", "none"])
def test_a_run_that_a_rollout_sends_ends_with_the_rollout(session: Session, case: str) -> None:
    identity = "0000000003"
    known = {
        "under way": RolloutPointer(newest=identity, over=False),
        "over": RolloutPointer(newest=identity, over=True),
        "another": RolloutPointer(newest="0000000004", over=False),
    }
    if case in known:
        session.ensure(paths.ROLLOUTS)
        session.commit([Create(paths.rollouts(LAB), known[case])])
    write(session, rollout=identity, held=True)
    if case == "under way":
        with pytest.raises(
            Conflict, match=f"sent by rollout lab/{identity}, and ends with it; to end both: nodepool-ocb rollout"
        ):
            stop(session, RUN, "ann", now=True)
        assert read(session)[0].head.stop is None
    else:
        assert stop(session, RUN, "ann", now=True).stop == "now"


# -- a driver's writes --


def test_a_driver_holds_to_the_pointer_and_writes_a_head_that_is_another(session: Session) -> None:
    running, versions = read(session)
    pointed, head = paths.task_runs(LAB), paths.task_run(LAB, RUN)
    known = versions.pointer

    def changes(after: TaskRun) -> list[Any]:
        return runs.heads(LAB, RUN, running.head, after, versions, 9.0)

    assert changes(running.head) == [Check(pointed, versions.version)]
    moved = replace(running.head, state=TaskRunState.RUNNING)
    assert changes(moved) == [Check(pointed, versions.version), Set(head, moved, versions.head)]
    ended = replace(running.head, state=TaskRunState.FAILED)
    closed = Set(pointed, replace(known, over=True, since=9.0), versions.version)
    assert changes(ended) == [closed, Set(head, ended, versions.head)]
    session.commit(changes(ended))
    with pytest.raises(Stale):
        session.commit(changes(moved))


def test_a_driver_is_noted_in_the_pointer_and_a_run_that_is_over_is_closed(session: Session) -> None:
    known, version = runs.pointer(session, LAB)
    path = paths.task_runs(LAB)
    session.commit([pointers.taken_over(path, known, version, "a1", 7.0)])
    assert runs.pointer(session, LAB) == (replace(known, driver="a1", since=7.0), version + 1)
    with pytest.raises(Stale):
        session.commit([pointers.taken_over(path, known, version, "a2", 7.0)])
    taken, version = runs.pointer(session, LAB)
    session.commit([pointers.taken_over(path, taken, version, None, 8.0)])
    free, version = runs.pointer(session, LAB)
    assert free == replace(known, driver=None, since=8.0)
    session.commit([pointers.closed(path, free, version, 9.0)])
    assert runs.pointer(session, LAB) == (replace(known, driver=None, over=True, since=9.0), version + 1)


def rows(number: int, size: int = 1) -> list[HistoryRow]:
    return [HistoryRow(f"t{at}", fqdn("n1"), Outcome.SUCCESSFUL, 1.0, 2.0, 3.0, 0, "r" * size) for at in range(number)]


@pytest.mark.parametrize(("number", "size"), [(0, 1), (3, 1), (9, 100 * 1024)])
def test_the_history_of_a_run_that_is_over_is_read_as_it_was_kept(session: Session, number: int, size: int) -> None:
    kept = rows(number, size)
    running, versions = read(session)
    parts = runs.keep_history(session, running, kept, versions.version)
    assert sorted(session.children(paths.task_run(LAB, RUN, "history")) or ()) == [f"{at:04}" for at in range(parts)]
    assert (parts > 1) == (size > 1)
    write(session, state=TaskRunState.SUCCESSFUL, parts={**running.head.parts, Table.HISTORY: parts})
    assert runs.rows(session, load_world(session), read(session)[0]) == kept


def test_a_history_that_another_driver_had_begun_is_written_over(session: Session) -> None:
    running, versions = read(session)
    runs.keep_history(session, running, rows(1), versions.version)
    kept = rows(2)
    assert runs.keep_history(session, running, kept, versions.version) == 1
    write(session, state=TaskRunState.SUCCESSFUL, parts={**running.head.parts, Table.HISTORY: 1})
    assert runs.rows(session, load_world(session), read(session)[0]) == kept


@pytest.mark.parametrize("begun", [False, True])
def test_a_driver_that_was_replaced_keeps_no_history(session: Session, begun: bool) -> None:
    running, versions = read(session)
    if begun:
        runs.keep_history(session, running, rows(1), versions.version)
    point(session, driver="a2")
    with pytest.raises(Stale) as refused:
        runs.keep_history(session, running, rows(2), versions.version)
    assert refused.value.path == paths.task_runs(LAB)
    znode = session.get(paths.task_run(LAB, RUN, "history/0000"))
    assert (znode is not None and znode.version == 0) if begun else znode is None


def test_the_history_of_a_run_under_way_is_that_of_its_noderoles(session: Session) -> None:
    found = runs.rows(session, load_world(session), read(session)[0])
    assert {(row.task, row.outcome) for row in found} == {
        ("one", "pending"),
        ("two", "pending"),
        ("off", Outcome.SKIPPED),
    }


def test_records_of_runs_are_read_as_far_as_they_can_be(session: Session, kazoo: KazooClient) -> None:
    record = Run(annealer="a1", outcome="succeeded", started=1.0, ended=2.0, generation=1, epoch=1)
    there, torn, gone = (paths.run("lab.one", fqdn("n1"), str(number)) for number in (1, 2, 3))
    for path in (there, torn):
        session.ensure(path.rpartition("/")[0])
        session.commit([Create(path, record)])
    kazoo.set(torn, b"garbage")
    assert runs.ended_runs(session, [there, torn, gone]) == {there: record}


def test_a_run_whose_head_cannot_be_read_is_an_error(session: Session, kazoo: KazooClient) -> None:
    kazoo.set(paths.task_run(LAB, RUN), b"garbage")
    with pytest.raises(Invalid, match=paths.task_run(LAB, RUN)):
        runs.read(session, LAB, RUN)


def test_a_rollout_does_not_begin_beside_a_run(session: Session) -> None:
    with pytest.raises(Conflict, match=f"tasks run lab/{RUN} is under way, and no rollout begins beside it"):
        rollouts.begin(session, LAB, rollout(), joined=lambda _: rolled.alone(session, LAB))
    assert rollouts.newest(session, LAB) is None
