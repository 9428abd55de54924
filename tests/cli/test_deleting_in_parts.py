"""Deletions in several transactions: a death between any two leaves a sound state, and the repeated command finishes.

The limits of a transaction are lowered here, so that small things need several.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import binding, deployments, liveness, structure
from nodepool_ocb.engine.deployments import OF_TASKS
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import (
    Change,
    Create,
    Fence,
    LockOwner,
    Node,
    NodeRole,
    Role,
    Run,
    Set,
    State,
    TaskRunPointer,
)
from nodepool_ocb.rollout import plan, strategy
from nodepool_ocb.rollout.records import Decision, RolloutState, apply
from nodepool_ocb.store import quarantine, rollouts
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven import pointers
from nodepool_ocb.store.subtree import removal_as_judged, subtree
from nodepool_ocb.store.tasks import beginning, lists, runs
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.runs import records, roles
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, Table, TaskRun, TaskRunState
from tests.fixtures.commands import Ocb
from tests.fixtures.deletions import deletion_of_deployment, deletion_of_node

N1, N2, OF_LAB = "n1.example.com", "n2.example.com", "tasks-spare.internal"
FEW = 2  # changes of a transaction
MOST_DEATHS = 100
ITEMS = "- {id: hello, type: shell, version: 2.1.0, role: ['*'], parameters: {cmd: 'true', timeout: 9}}\n"

Transactions = Iterator[Sequence[Change]]


@pytest.fixture
def spare(world: Session, ocb: Ocb, tmp_path: Path) -> Session:
    """Deployment spare is empty, and has a task list, a rollout and a run of tasks that are over; n2 is in lab."""
    (tmp_path / "tasks.yaml").write_text(ITEMS)
    for line in (
        "deployment create spare",
        f"node create {N2} --no-address --deployment lab",
        f"tasks upload --deployment spare {tmp_path / 'tasks.yaml'}",
    ):
        answer = ocb(*line.split())
        assert answer.exit_code == 0, answer.output
    rollouts.begin(world, "spare", plan.begin(strategy.WHOLE, {N1: Node()}, 1.0))
    found = rollouts.read(world, "spare", "0000000000")
    assert found is not None
    before, versions = found
    ended = apply(before, [Decision("", replace(before.head, state=RolloutState.CANCELLED), "it ended")])
    world.commit(rollouts.changes("spare", "0000000000", before, ended, versions, 9.0))
    _run_of_tasks(world, "spare")
    return world


def _run_of_tasks(session: Session, deployment: str) -> None:
    """With its role, and its virtual node."""
    path = paths.task_run(deployment, "0000000000")
    head = TaskRun(state=TaskRunState.SUCCESSFUL, virtual=OF_LAB, parts={Table.LIST: 3})
    task = Role(barclamp=roles.barclamp(deployment), jig="noop", flags=("task",))
    node = Node(deployment=deployment, virtual=True, alive=True, labels={OF_TASKS: deployment})
    bound = NodeRole.of(state=State.PROPOSED, since=1.0, deployment=deployment, task_run="0000000000")
    session.ensure(paths.task_runs(deployment).rpartition("/")[0])
    world = load_world(session)
    changes: list[Change] = [
        Create(paths.task_runs(deployment), TaskRunPointer(newest="0000000000", over=True)),
        Create(path, head),
        Create(f"{path}/{Table.LIST}"),
        *(Create(f"{path}/{Table.LIST}/{n:04}", each) for n in range(3) for each in records.parts([["a", "b"]])),
        Create(paths.role("a-task"), task),
        Create(paths.node(OF_LAB), node),
        Create(paths.fence(OF_LAB), Fence()),
        Create(paths.noderoles(OF_LAB)),
        Create(paths.noderole("a-task", OF_LAB), bound),
        Create(paths.runs("a-task", OF_LAB)),
    ]
    session.commit(structure.raised(world, changes))


@pytest.fixture
def few(spare: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once everything is there."""
    assert spare.connected
    monkeypatch.setattr(limits, "MOST_CHANGES", FEW)


def _of_deployment(session: Session) -> Transactions:
    world = load_world(session)
    yield from deletion_of_deployment(session, world, "spare") if "spare" in world.deployments else ()


def _of_node(session: Session) -> Transactions:
    world = load_world(session)
    yield from deletion_of_node(session, world, N1) if N1 in world.nodes else ()


def _of_noderoles(session: Session) -> Transactions:
    """As ``noderole unbind base``, with all below it."""
    world = load_world(session)
    base = world.vertex(f"base@{N1}")
    places = [paths.noderole(v.role, v.node.name) for v in binding.removable(base)] if base else []
    yield from structure.in_parts(world, (removal_as_judged(session, world, place) for place in places))


def _of_history(path: str) -> Callable[[Session], Transactions]:
    return lambda session: iter(_cut(pointers.emptied(subtree(session, path), [path])))


def _of_list(session: Session) -> Transactions:
    return iter(_cut(lists.removal(session, lists.deployment("spare"))))


def _cut(changes: Sequence[Change]) -> list[list[Change]]:
    return list(limits.parts(limits.singly(changes)))


DELETIONS: dict[str, tuple[Callable[[Session], Transactions], str]] = {
    "deployment": (_of_deployment, paths.deployment("spare")),
    "node": (_of_node, paths.node(N1)),
    "noderoles": (_of_noderoles, paths.noderole("base", N1)),
    "rollout": (_of_history(paths.rollout("spare", "0000000000")), paths.rollout("spare", "0000000000")),
    "run of tasks": (_of_history(paths.task_run("spare", "0000000000")), paths.task_run("spare", "0000000000")),
    "task list": (_of_list, paths.deployment_tasks("spare")),
}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("kind", DELETIONS)
def test_after_a_death_between_any_two_transactions_the_state_is_sound_and_a_repetition_finishes(
    spare: Session, kind: str
) -> None:
    delete, path = DELETIONS[kind]
    spare.commit(
        [
            Create(
                paths.run("base", N1, f"{n}-x"),
                Run(annealer="a", started=0.0, ended=1.0, outcome="succeeded", generation=1, epoch=1),
            )
            for n in range(6)
        ]
    )
    deaths = 0
    while deaths < MOST_DEATHS and (transaction := next(delete(spare), None)) is not None:
        spare.commit(transaction)  # and then the process dies
        _assert_sound(spare)
        deaths += 1
    assert deaths > 1, "the deletion takes several transactions"
    assert spare.get(path) is None
    if kind == "deployment":
        assert not [place for place in (paths.rollouts, paths.task_runs) if spare.get(place("spare"))]
        assert (spare.get(paths.role("a-task")), spare.get(paths.node(OF_LAB))) == (None, None)
        assert spare.children(paths.deployment_tasks("spare")) is None


def _assert_sound(session: Session) -> None:
    """Each record can be read, each parent exists, and each thing that is shown is whole."""
    world = load_world(session)
    assert not world.unreadable
    assert not quarantine.of_rollouts(session)
    for vertex in world.vertices():
        assert vertex.record.deployment in world.deployments, vertex.name
        if vertex.node.record and vertex.node.record.deleting:
            continue  # nothing is claimed there
        missing = [parent for parent in vertex.record.parents if world.parent(parent) is None]
        assert not missing, (vertex.name, missing)
        assert vertex.role in world.roles
    for listed in rollouts.list_(session):
        assert rollouts.read(session, listed.deployment, listed.id) is not None
    for run in runs.list_(session):
        assert len(runs.table(session, run.deployment, run.id, Table.LIST)) == 3
    with_list = lists.listed(session)
    for owner in with_list:
        assert lists.read(session, owner)


REFUSED = {
    "a node moves there": f"node move {N2} spare",
    "a node is created there": "node create n9.example.com --no-address --deployment spare",
    "a role is bound there": f"node bind {N2} base --deployment spare",
    "a role is bound to its node": f"node bind {OF_LAB} base --deployment lab",
    "its node leaves": f"node move {OF_LAB} lab",
    "a deployment is created below it": "deployment create deep --parent spare",
    "it is committed": "deployment commit spare",
    "it is configured": "deployment set spare base a/b=1",
    "its checks are scheduled": "deployment checks spare --schedule '0 3 * * *'",
    "a rollout begins": "rollout start --default --deployment spare --force",
    "a run of tasks begins": "tasks run --deployment spare",
    "a task list is uploaded": "tasks upload --deployment spare {more} --force",
}


@pytest.mark.usefixtures("few")
def test_nothing_enters_a_deployment_of_which_a_part_is_deleted(spare: Session, ocb: Ocb, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(ITEMS.replace("hello", "more"))
    for transaction in _first(_of_deployment(spare), 2):
        spare.commit(transaction)
    assert load_world(spare).deployments["spare"].record.deleting
    for what, line in REFUSED.items():
        answer = ocb(*shlex.split(line.format(more=tmp_path / "more.yaml")))
        said = (answer.exit_code, "finish that first: nodepool-ocb deployment delete spare" in answer.stderr)
        assert said == (4, True), (what, answer.output)
    assert (
        "is deleted; if no command is deleting the rest now: nodepool-ocb deployment delete spare"
        in ocb("status").output
    )
    assert ocb("deployment", "delete", "spare", "--yes").exit_code == 0
    assert "spare" not in load_world(spare).deployments


FASTER: dict[str, Callable[[World], Sequence[Change]]] = {
    "a node moves there": lambda world: liveness.changed(world, world.nodes[N2], 1.0, deployment="spare"),
    "a deployment is created below it": lambda world: deployments.create(world, "deep", "spare", 1.0),
}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("what", FASTER)
def test_a_refused_deletion_of_a_deployment_has_deleted_nothing(
    spare: Session, ocb: Ocb, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Another person is faster than the first transaction, which is decided already."""
    before = _contents(spare)
    commit, waiting = Session.commit, [what]

    def slow(self: Session, changes: Sequence[Change]) -> None:
        if waiting:
            commit(spare, FASTER[waiting.pop()](load_world(spare)))
        commit(self, changes)

    monkeypatch.setattr(Session, "commit", slow)
    answer = ocb("deployment", "delete", "spare", "--yes")
    monkeypatch.undo()
    assert (answer.exit_code, "still holds" in answer.stderr) == (4, True), answer.output
    assert not load_world(spare).deployments["spare"].record.deleting
    assert _contents(spare) == before


def test_a_run_of_tasks_that_was_reserved_after_a_deletion_was_judged_refuses_it(spare: Session) -> None:
    world = load_world(spare)
    pointer = world.task_runs["spare"]
    spare.commit([Set(paths.task_runs("spare"), replace(pointer.record, preparing="0000000001"), pointer.version)])
    with pytest.raises(Stale):
        spare.commit(next(deployments.marking(world, "spare")))


def test_a_run_of_tasks_is_not_reserved_in_a_deployment_whose_deletion_began_meanwhile(
    spare: Session, ocb: Ocb, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ocb("deployment", "commit", "spare").exit_code == 0
    real, waiting = pointers.next_id, [1]

    def slow(*arguments: Any) -> str:
        if waiting.pop():
            spare.commit(next(deployments.marking(load_world(spare), "spare")))
        return real(*arguments)

    monkeypatch.setattr(pointers, "next_id", slow)
    head = TaskRun(state=TaskRunState.RUNNING, virtual=OF_LAB)
    running = LoadedTaskRun("spare", "", head, records.plan_of((), ()), (), {})
    me = LockOwner(daemon="test", host="here", pid=1, purpose="begins a run of tasks", since=1.0)
    with pytest.raises(Conflict, match="deployment spare is being deleted"):
        beginning.begin(spare, beginning.NewTaskRun(running=running, roles={}, facts={}), me)
    assert load_world(spare).task_runs["spare"].record.preparing is None


def _contents(session: Session) -> list[str]:
    """The paths of what a deletion of the deployment takes away."""
    places = (paths.deployment_tasks, paths.rollouts, paths.task_runs)
    return [znode.path for place in places for znode in subtree(session, place("spare"))]


def _first(transactions: Transactions, number: int) -> Iterator[Sequence[Change]]:
    for _ in range(number):
        yield next(transactions)
