"""A run of tasks begins whole or not at all, and never beside another or beside a rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import Conflict, NotFound, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Deployment, DeploymentState, Set, State, Structure, TaskRunPointer
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.locks import Locks
from nodepool_ocb.store.tasks import beginning, rolled, runs
from nodepool_ocb.store.tasks.beginning import NewTaskRun
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.runs.records import Table, TaskRunState
from tests.annealer.tasks.task_staging import LAB, build, fqdn, made, me
from tests.store.tasks.first_run import ask_to_stop
from tests.store.test_rollouts import rollout

NODES = {"n1": ["a"], "n2": ["a"]}
TASKS = """
- {id: first, type: shell, role: [a], parameters: {cmd: x}}
- {id: done, type: stage, requires: [first]}
- {id: second, type: shell, role: [a], requires: [done], parameters: {cmd: x}}
"""
FIRST = "0000000000"


@pytest.fixture
def session(zk_session: Session) -> Session:
    build(zk_session, NODES)
    return zk_session


def wanted(**more: Any) -> NewTaskRun:
    running, roles = made(TASKS, NODES)
    return NewTaskRun(running=running, roles=roles, facts={"common": {"k": 1}, fqdn("n1"): {"v": 2}}, **more)


def deployment(session: Session, **fields: Any) -> None:
    """Change the record of the deployment."""
    znode = session.get(paths.deployment(LAB))
    assert znode is not None
    record = replace(codec.decode(Deployment, znode), **fields)
    session.commit([Set(paths.deployment(LAB), record, znode.version)])


def free(session: Session, identity: str = FIRST) -> bool:
    """Whether no process holds the lock of this run."""
    return not session.children(paths.task_run_lock(LAB, identity))


def test_a_run_that_has_begun_is_there_with_all_its_parts_and_is_the_newest(session: Session) -> None:
    progress: list[tuple[int, int]] = []
    before = session.now()
    identity = beginning.begin(session, wanted(texts=[("a.yaml", "one")]), me(), lambda *done: progress.append(done))
    found = runs.read(session, LAB, identity)
    assert found is not None
    running, versions = found
    assert (identity, running.id, running.head.state) == (FIRST, FIRST, TaskRunState.COMMITTING)
    assert before <= running.head.started <= session.now()
    assert versions.pointer == TaskRunPointer(newest=identity, over=False, id_base=-1, since=running.head.started)
    assert runs.table(session, LAB, identity, Table.LIST) == [["a.yaml", "one"]]
    assert len(runs.table(session, LAB, identity, Table.PLAN)) == len(running.plan)
    facts = session.get_many([paths.task_facts(LAB, identity, node) for node in ("common", fqdn("n1"))])
    assert [codec.attributes(znode) for znode in facts if znode is not None] == [{"k": 1}, {"v": 2}]
    noderoles = [view.record for view in load_world(session).vertices()]
    assert {record.state for record in noderoles} == {State.PROPOSED}
    assert len(noderoles) == len(running.plan)
    assert free(session)
    assert [total for _, total in progress] == [2 * len(running.plan)] * len(progress)
    assert [written for written, _ in progress] == sorted({written for written, _ in progress})
    assert progress[0][0] > 0


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"state": DeploymentState.PROPOSED}, "nodepool-ocb deployment commit lab"),
        ({"deleting": True}, "is being deleted"),
    ],
)
def test_no_run_begins_in_a_deployment_that_is_not_committed(
    session: Session, fields: dict[str, Any], reason: str
) -> None:
    deployment(session, **fields)
    with pytest.raises(Conflict, match=reason):
        beginning.begin(session, wanted(), me())
    assert session.get(paths.task_runs(LAB)) is None


def test_no_run_begins_in_a_deployment_that_is_not_there(zk_session: Session) -> None:
    with pytest.raises(NotFound, match="deployment lab does not exist; see: nodepool-ocb deployment list"):
        beginning.begin(zk_session, wanted(), me())


def test_no_run_begins_beside_another(session: Session) -> None:
    beginning.begin(session, wanted(), me())
    ways = f"wait for it: nodepool-ocb tasks wait lab/{FIRST}, or end it: nodepool-ocb tasks stop lab/{FIRST}"
    advice = f"tasks run lab/{FIRST} is under way; {ways}"
    with pytest.raises(Conflict, match=advice):
        beginning.begin(session, wanted(), me())
    assert runs.pointer(session, LAB)[0].newest == FIRST


def test_no_run_begins_beside_a_rollout(session: Session) -> None:
    identity = rollouts.begin(session, LAB, rollout())
    with pytest.raises(Conflict, match=f"rollout lab/{identity} is under way, and no run of tasks begins beside it"):
        beginning.begin(session, wanted(), me())
    assert session.children(paths.task_runs(LAB)) == []


def prepared(session: Session) -> tuple[str, Any]:
    """The next run is being prepared by this process; its id and lock."""
    pointers.opened(session, paths.task_runs(LAB), TaskRunPointer)
    identity, lock, _ = beginning._reserve(session, Locks(session), LAB, me())
    return identity, lock


def test_a_run_that_is_being_prepared_keeps_others_out_and_is_not_cleared(session: Session) -> None:
    identity, lock = prepared(session)
    assert runs.pointer(session, LAB)[0].preparing == identity
    reason = f"tasks run lab/{identity} is being prepared by test on here, process {me().pid}; wait for it"
    with pytest.raises(Conflict, match=reason):
        beginning.begin(session, wanted(), me())
    with pytest.raises(Conflict, match=reason):
        ask_to_stop(session, LAB)
    assert runs.under_way(session) == [(LAB, identity)]
    Locks(session).release(lock)


def test_a_preparation_that_broke_off_is_cleared_whole(session: Session) -> None:
    with pytest.raises(NotFound, match="no tasks were run in deployment lab"):
        ask_to_stop(session, LAB)
    identity, lock = prepared(session)
    Locks(session).release(lock)
    session.commit([Create(paths.task_run(LAB, identity, "facts"))])
    (note,) = ask_to_stop(session, LAB).notes
    assert note == f"the preparation of tasks run lab/{identity} broke off; nothing of it will run"
    assert runs.pointer(session, LAB)[0].preparing is None
    assert session.children(paths.task_runs(LAB)) == []
    with pytest.raises(NotFound, match="no tasks were run in deployment lab"):
        ask_to_stop(session, LAB)


def test_a_preparation_that_broke_off_is_in_no_runs_way(session: Session) -> None:
    broken, lock = prepared(session)
    Locks(session).release(lock)
    identity = beginning.begin(session, wanted(), me())
    assert identity > broken
    assert session.children(paths.task_runs(LAB)) == [identity]


class Interrupted(Exception):
    """The process that prepares a run is told to end."""


@pytest.mark.parametrize("step", ["_write_tables", "_bind", "_enter"])
def test_a_run_that_cannot_be_prepared_to_its_end_leaves_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    whole = getattr(beginning, step)

    def interrupted(*given: Any) -> None:
        if step != "_enter":
            whole(*given)
        raise Interrupted

    monkeypatch.setattr(beginning, step, interrupted)
    with pytest.raises(Interrupted):
        beginning.begin(session, wanted(), me())
    assert runs.pointer(session, LAB)[0] == TaskRunPointer(id_base=-1)
    assert session.children(paths.task_runs(LAB)) == []
    monkeypatch.undo()
    assert beginning.begin(session, wanted(), me()) == FIRST


def test_an_error_after_the_run_was_entered_leaves_it_under_way(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = beginning._enter

    def interrupted(*given: Any) -> None:
        enter(*given)
        raise Interrupted

    monkeypatch.setattr(beginning, "_enter", interrupted)
    with pytest.raises(Interrupted):
        beginning.begin(session, wanted(), me())
    assert runs.read(session, LAB, FIRST) is not None
    assert runs.under_way(session) == [(LAB, FIRST)]
    assert free(session)


def bump(session: Session, path: str, kind: type[Any]) -> Callable[[], None]:
    """Writes a record as it is, once."""
    pending = [path]

    def write() -> None:
        while pending:
            znode = session.get(pending.pop())
            assert znode is not None
            session.commit([Set(path, codec.decode(kind, znode), znode.version)])

    return write


@pytest.mark.parametrize(("path", "kind"), [(paths.STRUCTURE, Structure), (paths.deployment(LAB), Deployment)])
def test_a_run_begins_also_where_others_write_meanwhile(
    session: Session, monkeypatch: pytest.MonkeyPatch, path: str, kind: type[Any]
) -> None:
    refuse, others = rolled.refuse_rollout, bump(session, path, kind)

    def meanwhile(*given: Any) -> None:
        refuse(*given)
        others()

    monkeypatch.setattr(beginning, "refuse_rollout", meanwhile)
    identity = beginning.begin(session, wanted(), me())
    assert identity == FIRST
    assert runs.read(session, LAB, identity) is not None


def test_the_structure_that_changes_as_a_run_is_entered_is_read_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse, others = rolled.refuse_rollout, bump(session, paths.STRUCTURE, Structure)

    def meanwhile(session: Session, name: str) -> None:
        refuse(session, name)
        if runs.list_(session) or session.children(paths.task_run(LAB, FIRST)):
            others()

    monkeypatch.setattr(beginning, "refuse_rollout", meanwhile)
    assert beginning.begin(session, wanted(), me()) == FIRST
    assert runs.under_way(session) == [(LAB, FIRST)]


def test_a_run_whose_pointer_another_wrote_meanwhile_binds_nothing_more(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = beginning._write_tables

    def overtaken(*given: Any) -> Any:
        head = write(*given)
        known, version = runs.pointer(session, LAB)
        session.commit([Set(paths.task_runs(LAB), replace(known, since=7.0), version)])
        return head

    monkeypatch.setattr(beginning, "_write_tables", overtaken)
    with pytest.raises(Stale) as refused:
        beginning.begin(session, wanted(), me())
    assert refused.value.path == paths.task_runs(LAB)
    assert list(load_world(session).vertices()) == []


def test_runs_are_numbered_and_the_oldest_are_forgotten(session: Session) -> None:
    for number in range(pointers.KEPT + 2):
        identity = beginning.begin(session, wanted(), me())
        assert identity == f"{number:010}"
        known, version = runs.pointer(session, LAB)
        session.commit([Set(paths.task_runs(LAB), replace(known, over=True), version)])
    left = [listed.id for listed in runs.list_(session)]
    assert left == [f"{number:010}" for number in range(2, pointers.KEPT + 2)]
