"""Operations on task lists and their runs, without a command line: races, lost answers, dry runs, refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
from kazoo.client import KazooClient
from msgspec.structs import replace

from nodepool_ocb.config import Settings, ZooKeeperSettings
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Ambiguous, Conflict, Invalid, NotFound, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Create, Deployment, DeploymentState, Set
from nodepool_ocb.operations.nodes.changing import NodeAlive
from nodepool_ocb.operations.nodes.creating import NewNode, NodeCreate
from nodepool_ocb.operations.operation import Call, Operation, Procedure, Right, Situation, Steps
from nodepool_ocb.operations.performer import Reader
from nodepool_ocb.operations.reads.tasks.lists import ReadStoredList
from nodepool_ocb.operations.reads.tasks.plans import CompilePlan
from nodepool_ocb.operations.reads.tasks.runs import EarlierRun, ReadEarlierRuns
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.operations.selection import MatchNodes
from nodepool_ocb.operations.tasks import planning, sources
from nodepool_ocb.operations.tasks.checking import TasksCheck
from nodepool_ocb.operations.tasks.choosing import TaskChoice
from nodepool_ocb.operations.tasks.drawing import TasksGraph
from nodepool_ocb.operations.tasks.earlier import EarlierRuns
from nodepool_ocb.operations.tasks.files import ListFiles
from nodepool_ocb.operations.tasks.lists import TasksDownload, TasksList
from nodepool_ocb.operations.tasks.planning import TasksPlan
from nodepool_ocb.operations.tasks.running import TasksRun
from nodepool_ocb.operations.tasks.storing import ReleaseFiles, TasksSync, TasksUpload
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.tasks import beginning, lists, runs
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.facts import ClusterStatus
from nodepool_ocb.tasks.plan import TaskPlan
from nodepool_ocb.tasks.records import ListOwner, StoredList, TaskListRecord
from nodepool_ocb.tasks.runs.records import TaskRun, TaskRunState
from nodepool_ocb.tasks.tasklist import Task, TaskKind, TaskList
from nodepool_ocb.testing.zookeeper.server import Server
from tests.fixtures.lossy_proxy import lost_answer
from tests.operations.performing import calm, faster_writer

NET = "- {id: net, type: shell, role: '*', parameters: {cmd: ip link}}\n"
SITE = "- {id: site, type: shell, role: [web], parameters: {cmd: 'true'}}\n"


def files(*texts: str) -> ListFiles:
    return ListFiles({f"{number}/tasks.yaml": text for number, text in enumerate(texts)})


@pytest.fixture
def lab(zk_session: Session, zk_settings: ZooKeeperSettings) -> Session:
    """Deployment lab with node 1, and a task list of one task."""
    zk_session.commit([Create(paths.deployment("lab"), Deployment(state=DeploymentState.COMMITTED))])
    node = NewNode(deployment="lab", tags=("web",), labels={"uid": "1"})
    calm(zk_settings).perform(NodeCreate(name="n1.example.com", node=node))
    calm(zk_settings).perform(NodeAlive(nodes=("n1.example.com",)))
    calm(zk_settings).perform(TasksUpload(deployment="lab", files=files(SITE)))
    return zk_session


def entries(session: Session, verb: str) -> list[Entry]:
    read = journal.read(session, journal.numbers(session))
    return [each.entry for each in read if each.entry is not None and each.entry.verb == verb]


def stored(session: Session) -> dict[str, str]:
    return dict(lists.read(session, lists.deployment("lab")).texts)


# -- upload and sync --


@contextmanager
def _before_upload(meanwhile: Callable[[], object]) -> Iterator[None]:
    """Another writer acts after the first upload within the block was decided."""
    real, acted = lists.upload, list[int]()

    def upload(*given: Any) -> Any:
        if not acted:
            acted.append(1)
            meanwhile()
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "upload", upload)
        yield
    assert acted


def test_an_upload_over_a_list_that_another_changed_is_refused_unless_it_is_forced(
    lab: Session, zk_settings: ZooKeeperSettings
) -> None:
    def other() -> None:
        calm(zk_settings).perform(TasksUpload(deployment="lab", files=files(NET)))

    mine = TasksUpload(deployment="lab", files=files(SITE, NET))
    with _before_upload(other), pytest.raises(Conflict, match=r"changed meanwhile, by ann; .*--force"):
        calm(zk_settings).perform(mine)
    assert stored(lab) == files(NET).texts
    with _before_upload(other):
        assert calm(zk_settings).perform(replace(mine, force=True)).answer.change == "changed"
    assert stored(lab) == files(SITE, NET).texts


def test_settings_that_another_changed_meanwhile_are_not_written_over(
    lab: Session, zk_settings: ZooKeeperSettings
) -> None:
    def other() -> None:
        calm(zk_settings).perform(TasksUpload(deployment="lab", settings={"speed": 1}))

    mine = TasksUpload(deployment="lab", settings={"speed": 2})
    with faster_writer(other), pytest.raises(Conflict, match="the settings of deployment lab were changed meanwhile"):
        calm(zk_settings).perform(mine)
    assert lists.read(lab, lists.deployment("lab")).settings == {"speed": 1}
    with faster_writer(lambda: calm(zk_settings).perform(TasksUpload(deployment="lab", settings={"speed": 3}))):
        calm(zk_settings).perform(replace(mine, force=True))
    assert lists.read(lab, lists.deployment("lab")).settings == {"speed": 2}


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_upload_with_a_lost_answer_is_stored_and_noted_one_time(
    lab: Session, zookeeper: Server, zk_settings: ZooKeeperSettings, chroot: str, at: int
) -> None:
    before = len(entries(lab, "tasks upload"))
    with lost_answer(zookeeper, at) as (proxy, met):
        mine = calm(replace(zk_settings, hosts=proxy.hosts + chroot))
        assert mine.perform(TasksUpload(deployment="lab", files=files(NET))).answer.change == "changed"
    assert len(met) >= at
    assert stored(lab) == files(NET).texts
    assert len(entries(lab, "tasks upload")) == before + 1
    uploads = [name for name in lab.children(paths.deployment_tasks("lab")) or () if name.startswith("list-")]
    assert len(uploads) == 1


def test_a_dry_run_of_an_upload_says_the_change_and_writes_nothing(
    lab: Session, zk_settings: ZooKeeperSettings
) -> None:
    mine = calm(zk_settings, dry_run=True)
    row = mine.perform(TasksUpload(deployment="lab", files=files(SITE, NET), settings={"a": 1})).answer
    assert (row.change, row.tasks, row.files) == ("changed", 2, 2)
    assert calm(zk_settings).perform(TasksUpload(deployment="lab", files=files(SITE))).answer.change == "unchanged"
    assert lists.read(lab, lists.deployment("lab")).settings == {}


@pytest.mark.usefixtures("zk_session")
def test_an_upload_that_leaves_open_where_it_goes_is_refused(zk_settings: ZooKeeperSettings) -> None:
    for operation, said in (
        (TasksUpload(files=files(NET)), "give --release or --deployment"),
        (TasksUpload(release="9.0", deployment="lab", files=files(NET)), "not both"),
        (TasksUpload(release="9.0", files=files(NET), base="8.0"), "belong to a deployment"),
        (TasksUpload(release="9.0", files=files(NET), settings={}), "belong to a deployment"),
        (TasksUpload(deployment="lab"), "give the files of a list"),
        (TasksCheck(files=files(NET)), "give --release or --deployment"),
        (TasksDownload(), "give --release or --deployment"),
        (TasksGraph(release="9.0", choice=TaskChoice(nodes=("1",))), "chooses instances"),
        (TasksGraph(deployment="lab", tasks_only=True, choice=TaskChoice(tasks=("net/1",))), "chooses instances"),
        (TasksGraph(release="9.0", choice=TaskChoice(retry=True, end=("net",))), "--retry goes on"),
        (
            TasksPlan(deployment="system", choice=TaskChoice(selector="tag:web", nodes=("1",))),
            "does not go with --nodes",
        ),
        (TasksPlan(deployment="system", choice=TaskChoice(selector="tag:web", retry=True)), "does not go with --retry"),
    ):
        with pytest.raises(Ambiguous, match=said):
            calm(zk_settings).perform(operation)


def test_a_sync_refuses_releases_with_a_fault_and_stores_the_others(
    zk_session: Session, zk_settings: ZooKeeperSettings
) -> None:
    releases = (
        ReleaseFiles(release="6.1", how="by its path", files=files(NET.replace("role", "rolle"))),
        ReleaseFiles(release="7.0", how="by its path", problems=("7.0/tasks.yaml: cannot be read",)),
        ReleaseFiles(release="9.0", how="by its path", files=files(NET)),
    )
    mine = calm(zk_settings)
    answer = mine.perform(TasksSync(releases=releases)).answer
    assert [(row.name, row.change) for row in answer.rows] == [
        ("6.1", "refused"),
        ("7.0", "refused"),
        ("9.0", "created"),
    ]
    assert "7.0/tasks.yaml: cannot be read" in answer.problems
    assert [each for each in answer.problems if each.startswith("release")] == [
        "release 6.1: 1 fault; its list stays as it is",
        "release 7.0: 1 fault; its list stays as it is",
    ]
    assert [each.subjects for each in entries(zk_session, "tasks sync")] == [("9.0",)]
    assert [(row.name, row.tasks) for row in mine.perform(TasksList()).answer] == [("9.0", 1)]


def test_a_sync_replaces_a_list_that_cannot_be_read_and_goes_on_after_a_release_that_another_changed(
    zk_session: Session, zk_settings: ZooKeeperSettings, kazoo: KazooClient
) -> None:
    releases = tuple(ReleaseFiles(release=name, how="by its path", files=files(NET)) for name in ("6.1", "9.0"))
    calm(zk_settings).perform(TasksSync(releases=releases))
    kazoo.set(paths.release_tasks("9.0"), b"garbage")
    real = lists.upload

    def upload(session: Session, owner: ListOwner, *rest: Any) -> Any:
        if owner.name == "6.1":
            raise Conflict("the task list of release 6.1 was changed meanwhile")
        return real(session, owner, *rest)

    more = tuple(ReleaseFiles(release=name, how="by its path", files=files(NET, SITE)) for name in ("6.1", "9.0"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "upload", upload)
        answer = calm(zk_settings).perform(TasksSync(releases=more)).answer
    assert [(row.name, row.change) for row in answer.rows] == [("6.1", "refused"), ("9.0", "created")]
    assert answer.problems == (
        "the task list of release 6.1 was changed meanwhile",
        "release 6.1: 1 fault; its list stays as it is",
    )
    assert lists.read(zk_session, lists.release("9.0")).record.tasks == 2


def test_a_list_is_checked_over_that_of_a_release_and_downloaded_with_it(
    lab: Session, zk_settings: ZooKeeperSettings
) -> None:
    mine = calm(zk_settings)
    mine.perform(TasksUpload(release="9.0", files=files(NET)))
    own = ListFiles({"tasks.yaml": SITE.replace("parameters", "requires: [net], parameters")}, warnings=("left out",))
    found = mine.perform(TasksCheck(files=own, release="9.0")).answer
    assert ([each.id for each in found.tasks], found.problems, found.warnings) == (["net", "site"], (), ("left out",))
    assert mine.perform(TasksCheck(files=own, deployment="lab")).answer.problems, "lab names no release yet"
    with pytest.raises(NotFound, match="release 9 has no task list"):
        mine.perform(TasksCheck(files=own, release="9"))
    mine.perform(TasksUpload(deployment="lab", files=own, base="9.0", settings={"a": 1}))
    assert "left out" in mine.heard.notes[-1]
    assert mine.perform(TasksCheck(files=own, deployment="lab")).answer.problems == ()
    texts = mine.perform(TasksDownload(deployment="lab")).answer
    assert texts == {**own.texts, "settings.json": '{\n  "a": 1\n}\n'}
    (merged,) = mine.perform(TasksDownload(deployment="lab", merged=True)).answer.values()
    assert [line for line in merged.splitlines() if line.startswith("- id:")] == ["- id: net", "- id: site"]
    assert stored(lab) == own.texts


# -- run --


def test_of_two_runs_that_begin_at_once_one_is_refused(lab: Session, zk_settings: ZooKeeperSettings) -> None:
    def other() -> None:
        calm(zk_settings).perform(TasksRun(deployment="lab"))

    with faster_writer(other), pytest.raises(Conflict, match="tasks run lab/0000000000 is under way"):
        calm(zk_settings).perform(TasksRun(deployment="lab"))
    assert [each.id for each in runs.list_(lab, ["lab"])] == ["0000000000"]


def test_a_run_with_a_lost_answer_begins_one_time(
    lab: Session, zookeeper: Server, zk_settings: ZooKeeperSettings, chroot: str
) -> None:
    for at in itertools.count(1):
        with lost_answer(zookeeper, at) as (proxy, met):
            mine = calm(replace(zk_settings, hosts=proxy.hosts + chroot))
            answer = mine.perform(TasksRun(deployment="lab", facts_file="none")).answer
        assert answer.key is not None
        newest = runs.pointer(lab, "lab")[0]
        assert (newest.newest, newest.over, newest.preparing) == (answer.key.id, False, None), f"commit {at}"
        begun = [each for each in entries(lab, "tasks run") if str(answer.key) in each.subjects]
        assert len(begun) == 1, f"commit {at}"
        vertex = load_world(lab).vertex("lab.site@n1.example.com")
        assert vertex is not None
        assert vertex.record.task_run == answer.key.id
        if len(met) < at:
            break
        _end(lab)
    assert at > 4


def _end(session: Session) -> None:
    """Forget that a run is under way."""
    known, version = runs.pointer(session, "lab")
    session.commit([Set(paths.task_runs("lab"), replace(known, over=True), version)])


@pytest.mark.usefixtures("lab")
def test_a_run_notes_its_warnings_and_that_no_annealer_runs(zk_settings: ZooKeeperSettings) -> None:
    node = NewNode(deployment="lab", tags=("web",), labels={"uid": "2"})
    mine = calm(zk_settings)
    mine.perform(NodeCreate(name="n2.example.com", node=node))
    answer = mine.perform(TasksRun(deployment="lab")).answer
    assert answer.row is not None
    assert (answer.row.run, answer.row.state, answer.row.nodes, answer.row.driver) == (
        "lab/0000000000",
        "committing",
        2,
        None,
    )
    assert mine.heard.notes[0].startswith("note: n2.example.com is not alive")
    assert mine.heard.notes[-1].startswith("no annealer is running: nothing of it moves; ")


def test_a_dry_run_of_a_run_gives_the_plan_and_writes_nothing(lab: Session, zk_settings: ZooKeeperSettings) -> None:
    mine = calm(zk_settings, dry_run=True)
    answer = mine.perform(TasksRun(deployment="lab", choice=TaskChoice(selector="tag:web"))).answer
    assert answer.plan is not None
    assert ([row.task for row in answer.plan.document.runs], answer.key) == (["site"], None)
    assert runs.list_(lab, ["lab"]) == []
    with pytest.raises(Conflict, match="selector state:ERROR matches no node"):
        mine.perform(TasksRun(deployment="lab", choice=TaskChoice(selector="state:ERROR")))


def test_a_plan_of_a_deployment_that_is_being_deleted_or_of_nodes_that_cannot_be_read_is_refused(
    lab: Session, zk_settings: ZooKeeperSettings, kazoo: KazooClient
) -> None:
    kazoo.create(paths.node("n2.example.com"), b"garbage")
    with pytest.raises(Conflict, match=r"n2\.example\.com"):
        calm(zk_settings).perform(TasksPlan(deployment="lab"))
    kazoo.delete(paths.node("n2.example.com"))
    assert calm(zk_settings).perform(TasksPlan(deployment="lab")).answer.document.runs
    stored_record = load_world(lab).deployments["lab"]
    lab.commit([Set(paths.deployment("lab"), replace(stored_record.record, deleting=True), stored_record.version)])
    with pytest.raises(Conflict, match="deployment lab is being deleted"):
        calm(zk_settings).perform(TasksPlan(deployment="lab"))


def test_a_run_of_nothing_is_refused(lab: Session, zk_settings: ZooKeeperSettings) -> None:
    with pytest.raises(Invalid, match="nothing is left to run"):
        calm(zk_settings).perform(TasksRun(deployment="lab", choice=TaskChoice(skip=("site",))))
    assert runs.list_(lab, ["lab"]) == []


# -- procedures --


def test_a_begin_that_gave_up_is_not_tried_again(
    lab: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def begin(*_: Any) -> str:
        tried.append(1)
        raise Stale("others begin runs on and on; try again")

    monkeypatch.setattr(beginning, "begin", begin)
    with pytest.raises(Conflict, match="others begin runs on and on") as refused:
        calm(zk_settings).perform(TasksRun(deployment="lab"))
    assert (type(refused.value), len(tried), runs.list_(lab, ["lab"])) == (Conflict, 1, [])


@pytest.mark.parametrize("module", [lists, runs], ids=["lists", "runs"])
def test_a_read_that_gave_up_is_not_tried_again(
    lab: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    calm(zk_settings).perform(TasksRun(deployment="lab"))
    tried: list[int] = []

    def read(*_: Any) -> None:
        tried.append(1)
        raise Stale("it is changed on and on")

    monkeypatch.setattr(module, "read", read)
    with pytest.raises(Conflict, match="it is changed on and on") as refused:
        calm(zk_settings).perform(TasksGraph(deployment="lab"))
    assert (type(refused.value), len(tried), lab.connected) == (Conflict, 1, True)


class _Counted(Procedure[int], frozen=True):
    count: list[int]

    def carry_out(self, reader: Reader) -> int:  # noqa: ARG002
        self.count.append(1)
        return len(self.count)


class _OvertakenAfterwards(Operation[list[int]], frozen=True, kw_only=True):
    noun, verb, right, reads, writes = "lamp", "light", Right.OPERATOR, (_Counted,), ("node",)

    count: list[int]
    attempts: list[int]

    def decide(self, situation: Situation) -> Steps[list[int]]:  # noqa: ARG002
        found = yield from _Counted(self.count)
        self.attempts.append(found)
        if len(self.attempts) < 3:
            raise Stale("another writer was faster")
        return self.attempts


@pytest.mark.usefixtures("zk_session")
def test_an_attempt_after_a_conflict_does_not_repeat_a_procedure(zk_settings: ZooKeeperSettings) -> None:
    count: list[int] = []
    assert calm(zk_settings).perform(_OvertakenAfterwards(count=count, attempts=[])).answer == [1, 1, 1]
    assert count == [1]


@pytest.mark.usefixtures("zk_session")
def test_a_dry_run_carries_out_no_procedure(zk_settings: ZooKeeperSettings) -> None:
    count: list[int] = []
    with pytest.raises(AssertionError, match="a dry run asks for _Counted"):
        calm(zk_settings, dry_run=True).perform(_OvertakenAfterwards(count=count, attempts=[]))
    assert count == []


# -- decisions, without a server --


def head(state: TaskRunState, **more: Any) -> TaskRun:
    return TaskRun(state=state, virtual="tasks-lab.internal", **more)


def earlier(*heads: TaskRun) -> EarlierRuns:
    return EarlierRuns("lab", tuple(EarlierRun(str(number), each) for number, each in enumerate(heads)))


def test_a_retry_goes_on_with_the_newest_run_that_changed_machines_and_did_not_succeed() -> None:
    failed, noop = head(TaskRunState.FAILED), head(TaskRunState.FAILED, noop=True)
    assert earlier(noop, failed).retried.id == "1"
    for heads, said in (
        ((noop,), "no run of tasks that could be gone on with"),
        ((head(TaskRunState.RUNNING), failed), "lab/0 is under way"),
        ((head(TaskRunState.SUCCESSFUL), failed), "nothing failed in tasks run lab/0"),
    ):
        with pytest.raises(Conflict, match=said):
            assert earlier(*heads).retried
    assert earlier(head(TaskRunState.RUNNING), noop, failed).over == ("2",)
    assert [earlier(*heads).status for heads in ((), (noop,), (noop, failed))] == [
        ClusterStatus.NEW,
        ClusterStatus.NEW,
        ClusterStatus.ERROR,
    ]


def test_a_plan_is_compiled_with_the_status_and_the_outcomes_of_earlier_runs(lab: Session) -> None:
    """On an event, a task that succeeded on a node before is left out, unless the event names it; stages never are."""
    world = load_world(lab)
    record = TaskListRecord(upload="list-0000000000")
    again = SITE.replace("site", "again").replace("parameters", "reexecute_on: [changes], parameters")
    failed, noop, running = head(TaskRunState.FAILED), head(TaskRunState.FAILED, noop=True), head(TaskRunState.RUNNING)
    past = tuple(EarlierRun(str(number), each) for number, each in enumerate((noop, failed, running)))
    n1 = "n1.example.com"

    def compiled(choice: TaskChoice, done: Mapping[Any, Any] | frozenset[Any]) -> CompilePlan:
        steps = planning.prepare(world, "lab", choice)
        assert next(steps) == ReadEarlierRuns("lab")
        assert steps.send(past) == ReadStoredList(ListOwner(True, "lab"))
        assert steps.send(StoredList(record, 0, {"tasks.yaml": SITE + again})) == MatchNodes(None)
        step = steps.send(None)
        if not isinstance(step, CompilePlan):
            step = steps.send(done)
        assert isinstance(step, CompilePlan)
        return step

    found = compiled(TaskChoice(), frozenset())
    assert (found.status, found.earlier, found.done, found.force) == (ClusterStatus.ERROR, ("1",), frozenset(), False)
    succeeded = {("site", n1): "1", ("again", n1): "1", ("deploy", ""): "1"}
    found = compiled(TaskChoice(events=("changes",), force=True), succeeded)
    assert (found.done, found.force) == (frozenset({("site", n1)}), True)
    retried = compiled(TaskChoice(retry=True), frozenset({("site", n1)}))
    assert retried.done == frozenset({("site", n1)})


def test_the_files_that_a_plan_names_are_those_of_each_node_that_runs_the_task() -> None:
    def copied(*names: str) -> dict[str, Any]:
        return {"files": [{"src": name, "dst": "/x"} for name in names]}

    tasks = TaskList(
        (
            Task(id="a", kind=TaskKind.COPY_FILES, parameters=copied("/plain"), place="l:1"),
            Task(id="b", kind=TaskKind.COPY_FILES, parameters=copied("/skipped"), place="l:2"),
        )
    )
    plan = TaskPlan(
        nodes=("n1", "n2", "n3", "n4", ""),
        tasks=("a", "b", "barrier.1"),
        task_of=(0, 0, 0, 0, 1, 2),
        node_of=(0, 1, 2, 3, 0, 4),
        parents=((),) * 6,
        rank=(0,) * 6,
        skipped={3: "not selected", 4: "not selected"},
        parameters={1: copied("/own"), 3: copied("/left-out")},
    )
    assert sources.of_plan(plan, tasks) == {("a", "/plain"): "l:1", ("a", "/own"): "l:1"}
    named = {**sources.of_plan(plan, tasks)}
    assert [each.partition(";")[0] for each in sources.sentences(named, {"/own": "is a key"})] == [
        "l:1: a: src is a key"
    ]


def test_a_choice_that_contradicts_itself_is_refused_before_its_lists_are_read() -> None:
    situation = Situation(call=Call(login="ann", host="desk"), now=0.0, local_now=0.0, settings=Settings())
    steps = TasksRun(deployment="lab", choice=TaskChoice(retry=True, tasks=("site",))).decide(situation)
    assert next(steps) == ReadWorld()
    with pytest.raises(Ambiguous, match="--retry goes on"):
        steps.send(World())
