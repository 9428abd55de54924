"""A run of tasks and a rollout of one deployment: one transaction ties them, and without it they keep each other out."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import Settings
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import Check, Create, Delete, Set, State, TaskRunPointer
from nodepool_ocb.operations.operation import Call, Operation, Right, Situation, Steps
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.operations.tasks import reopening
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.locks import Locks
from nodepool_ocb.store.tasks import beginning, rolled, runs
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.runs.records import TaskRunState
from tests.annealer.tasks.task_staging import LAB, begin, build, fqdn, me
from tests.operations.performing import ListeningCaller
from tests.store import test_rollouts
from tests.store.tasks.first_run import RUN, point, read, write
from tests.store.test_rollouts import rollout

NODES = {"n1": ["a"]}
TASKS = """
- {id: one, type: shell, role: [a], parameters: {cmd: x}}
- {id: two, type: shell, role: [a], requires: [one], parameters: {cmd: x}}
- {id: three, type: shell, role: [a], requires: [two], parameters: {cmd: x}}
"""
ROLLOUT = "0000000000"


@pytest.fixture
def session(zk_session: Session) -> Session:
    build(zk_session, NODES)
    return zk_session


@pytest.fixture
def run(session: Session) -> str:
    """A run that is held for a rollout."""
    identity = begin(session, TASKS, NODES)
    write(session, held=True)
    return identity


def ended(session: Session, **more: object) -> None:
    """The run is over, as its driver writes it."""
    write(session, **{"state": TaskRunState.FAILED, "ended": 5.0, **more})
    point(session, over=True, driver="a1")


# -- apart --


def test_nothing_is_checked_where_no_run_ever_began(session: Session) -> None:
    assert rolled.alone(session, LAB) == []
    assert rolled.rollout_under_way(session, LAB) is None
    rolled.refuse_rollout(session, LAB)


def test_a_rollout_holds_to_the_pointer_of_a_run_that_is_over(session: Session, run: str) -> None:
    with pytest.raises(Conflict, match=f"tasks run lab/{run} is under way, and no rollout begins beside it"):
        rolled.alone(session, LAB)
    ended(session)
    version = runs.pointer(session, LAB)[1]
    assert rolled.alone(session, LAB) == [Check(paths.task_runs(LAB), version)]


def test_no_rollout_begins_while_a_run_is_prepared(session: Session) -> None:
    pointers.opened(session, paths.task_runs(LAB), TaskRunPointer)
    assert rolled.alone(session, LAB) == [Check(paths.task_runs(LAB), 0)]
    identity, lock, version = beginning._reserve(session, Locks(session), LAB, me())
    with pytest.raises(Conflict, match=f"tasks run lab/{identity} is being prepared; wait for it"):
        rolled.alone(session, LAB)
    Locks(session).release(lock)
    assert rolled.alone(session, LAB) == [Check(paths.task_runs(LAB), version)]


def test_a_rollout_under_way_is_named_until_it_is_over(session: Session) -> None:
    identity = rollouts.begin(session, LAB, rollout())
    assert rolled.rollout_under_way(session, LAB) == identity
    with pytest.raises(Conflict, match=f"nodepool-ocb rollout wait lab/{identity}, or end it: nodepool-ocb rollout ca"):
        rolled.refuse_rollout(session, LAB)
    test_rollouts.end(session, identity, LAB)
    assert rolled.rollout_under_way(session, LAB) is None
    rolled.refuse_rollout(session, LAB)


# -- joined --


def test_a_run_joins_the_rollout_that_begins_in_one_transaction(session: Session, run: str) -> None:
    before = runs.pointer(session, LAB)
    identity = rollouts.begin(session, LAB, rollout(), joined=lambda new: rolled.joined(session, LAB, run, new))
    running, versions = read(session)
    assert (running.head.rollout, identity) == (identity, ROLLOUT)
    assert versions.version == before[1] + 1
    assert versions.pointer == replace(before[0], since=versions.pointer.since)
    assert versions.pointer.since > before[0].since


@pytest.mark.parametrize("change", [{"state": TaskRunState.FAILED}, {"stop": "asked"}, {"rollout": "0000000009"}])
def test_a_run_that_is_stopped_or_sent_already_joins_no_rollout(
    session: Session, run: str, change: dict[str, Any]
) -> None:
    write(session, **change)
    with pytest.raises(Conflict, match=f"tasks run lab/{run} is .*, and no rollout can send it"):
        rollouts.begin(session, LAB, rollout(), joined=lambda new: rolled.joined(session, LAB, run, new))
    assert rollouts.newest(session, LAB) is None
    assert session.children(paths.rollouts(LAB)) == []


@pytest.mark.parametrize("empty", [False, True])
def test_a_run_that_is_gone_joins_no_rollout(session: Session, empty: bool) -> None:
    if empty:
        pointers.opened(session, paths.task_runs(LAB), TaskRunPointer)
        session.commit([Create(paths.task_run(LAB, RUN))])
    with pytest.raises(NotFound, match=f"tasks run lab/{RUN} is gone; begin another rollout: nodepool-ocb rollout st"):
        rolled.joined(session, LAB, RUN, ROLLOUT)


# -- reopened --


class Reopen(Operation[None], frozen=True, kw_only=True):
    """The run of tasks resumes as with its rollout."""

    noun, verb, right = "rollout", "reopen", Right.OPERATOR
    reads, writes = reopening.READS, ("run of tasks", "noderole")

    run: str

    def decide(self, situation: Situation) -> Steps[None]:
        yield (yield from reopening.reopened(Key(LAB, self.run), situation))


def reopen(session: Session, run: str) -> None:
    Performer(Call(login="ann", host="desk"), ListeningCaller(), Settings).perform(Reopen(run=run), session)


def test_a_run_that_goes_on_forgets_how_it_fared_and_keeps_the_rest(session: Session, run: str) -> None:
    before = read(session)[0].head
    course = {
        "counts": {"failed": 1}, "reason": "it failed", "stop": "now", "stopped_by": "ann",
        "away": (fqdn("n1"),), "aside": "ann paused it", "resumed": 4.0,
    }  # fmt: skip
    ended(session, rollout=ROLLOUT, **course)
    known, version = runs.pointer(session, LAB)
    reopen(session, run)
    running, versions = read(session)
    assert running.head == replace(before, rollout=ROLLOUT)
    assert versions.version == version + 1
    assert versions.pointer == replace(known, over=False, driver=None, since=versions.pointer.since)
    assert versions.pointer.since > known.since


def test_tasks_that_did_not_run_wait_again_for_those_before_them(session: Session, run: str) -> None:
    world = load_world(session)
    one, two, three = (world.vertex(f"lab.{name}@{fqdn('n1')}") for name in ("one", "two", "three"))
    assert one is not None
    assert two is not None
    assert three is not None
    done = one.record.amended(state=State.ACTIVE, reason="it ran")
    cut = two.record.amended(parents=(), reason="not run: it was stopped")
    for vertex, record in ((one, done), (two, cut)):
        (path,) = [paths.noderole(vertex.role, vertex.node.name)]
        znode = session.get(path)
        assert znode is not None
        session.commit([Set(path, record, znode.version)])
    ended(session)
    reopen(session, run)
    world = load_world(session)
    after = {name: world.vertex(f"lab.{name}@{fqdn('n1')}") for name in ("one", "two", "three")}
    assert {name: vertex.record for name, vertex in after.items() if vertex is not None} == {
        "one": done,
        "two": two.record.amended(reason=None),
        "three": three.record,
    }
    assert two.record.parents == (f"lab.one@{fqdn('n1')}",)
    assert after["three"] is not None
    znode = session.get(paths.noderole("lab.three", fqdn("n1")))
    assert znode is not None
    assert znode.version == 0, "a noderole that waits as planned is not written"


@pytest.mark.parametrize(
    ("change", "later"),
    [({"newest": "0000000004"}, "0000000004"), ({"preparing": "0000000005"}, "0000000005")],
)
def test_a_run_after_which_another_began_does_not_go_on(
    session: Session, run: str, change: dict[str, Any], later: str
) -> None:
    ended(session)
    point(session, **change)
    with pytest.raises(Conflict, match=f"tasks run lab/{later} began after that of the rollout, lab/{run}"):
        reopen(session, run)


def test_a_run_that_does_not_end_does_not_go_on(session: Session, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolled, "ENDS_SECONDS", 0.01)
    with pytest.raises(Conflict, match=f"tasks run lab/{run} has not ended with its rollout yet"):
        reopen(session, run)


def test_a_run_that_ends_a_moment_later_goes_on(session: Session, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def sleep(_: float) -> None:
        looks.append(1)
        ended(session)

    monkeypatch.setattr(time, "sleep", sleep)
    reopen(session, run)
    assert looks == [1]
    assert not read(session)[0].head.over


@pytest.mark.parametrize("part", ["", "plan/0000"])
def test_a_run_that_is_deleted_meanwhile_does_not_go_on(
    session: Session, run: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(session)
    wait = rolled.ended

    def gone(*given: Any) -> Any:
        over = wait(*given)
        path = paths.task_run(LAB, RUN, part) if part else paths.task_run(LAB, RUN)
        znode = session.get(path)
        assert znode is not None
        session.commit([Set(path, None, znode.version)] if not part else [Delete(path, znode.version)])
        return over

    monkeypatch.setattr(rolled, "ended", gone)
    monkeypatch.setattr(runs, "ATTEMPTS", 1)
    with pytest.raises(NotFound if not part else Exception, match="is gone" if not part else "on and on"):
        reopen(session, run)
