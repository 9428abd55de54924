"""Decisions of operations, driven by hand: a table answers their lookups, and no server is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import Settings
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict, Invalid, NotFound, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import CheckResult, Drift
from nodepool_ocb.model.executions import Versions
from nodepool_ocb.model.installation import Installation
from nodepool_ocb.model.records import (
    Change,
    Daemon,
    Delete,
    Deployment,
    Node,
    NodeRole,
    Role,
    RolloutPointer,
    Set,
    State,
    Structure,
)
from nodepool_ocb.operations import assignments, attributes, runlogs
from nodepool_ocb.operations import performer as performing
from nodepool_ocb.operations.barclamps import importing
from nodepool_ocb.operations.deployments.deleting import DeploymentDelete
from nodepool_ocb.operations.executions.watched import NO_ANNEALER
from nodepool_ocb.operations.following import Following
from nodepool_ocb.operations.history import events
from nodepool_ocb.operations.history.reading import HistoryRead
from nodepool_ocb.operations.keys import files
from nodepool_ocb.operations.noderoles.acting import NoderoleCancel, NoderoleRefresh
from nodepool_ocb.operations.noderoles.checking import NoderoleCheck, NoderoleDrift
from nodepool_ocb.operations.noderoles.effective import NoderoleAttributesDiff
from nodepool_ocb.operations.nodes.changing import NodeDead
from nodepool_ocb.operations.nodes.deleting import NodeDelete, NodesDeleted
from nodepool_ocb.operations.operation import Call, Lookup, Note, Operation, Situation, Steps
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.executions import AnnealerRuns
from nodepool_ocb.operations.reads.histories import HistoryDeletions, ReadHistory, ReadTaskList
from nodepool_ocb.operations.reads.journal import FindEntries, RefuseUnknownNames
from nodepool_ocb.operations.reads.noderoles import ReadBlobs, ReadRunsAt
from nodepool_ocb.operations.reads.rollouts import (
    ReadNewestRollout,
    ReadRolloutDeployments,
    ReadRolloutDriver,
    ReadRolloutVersions,
)
from nodepool_ocb.operations.reads.world import ReadDeletions, ReadWorld
from nodepool_ocb.operations.reads.znodes import FoundZnode, ReadChildren, ReadZnode
from nodepool_ocb.operations.records import deleting
from nodepool_ocb.operations.records.reading import RecordShow
from nodepool_ocb.operations.rollouts.directing import RolloutCancel
from nodepool_ocb.operations.selection import ResolveNodes
from nodepool_ocb.rollout import plan
from nodepool_ocb.rollout.strategy import Group, Selector, Strategy
from nodepool_ocb.views.history.entries import EntryFilter
from tests.engine.worlds import put, world
from tests.operations.performing import ListeningCaller

NOW = 9.0
Answers = Mapping[type, object]


class Decided:
    """The steps of a decision, and its answer."""

    def __init__(self, steps: Steps[Any], answers: Answers) -> None:
        self.asked: list[Lookup[Any]] = []
        self.notes: list[str] = []
        self.written: list[Any] = []
        self.answer: Any = None
        send: object = None
        while True:
            try:
                step = steps.send(send)
            except StopIteration as ended:
                self.answer = ended.value
                return
            send = None
            if isinstance(step, Lookup):
                self.asked.append(step)
                send = answers[type(step)]
            elif isinstance(step, Note):
                self.notes.append(step.text)
            else:
                self.written += step


def decided(operation: Operation[Any], answers: Answers, **fields: Any) -> Decided:
    return Decided(operation.decide(situation(**fields)), answers)


def situation(dry_run: bool = False, **fields: Any) -> Situation:
    call = Call(login="ann", host="desk", dry_run=dry_run)
    return Situation(call=call, now=NOW, local_now=NOW, settings=Settings(), **fields)


# -- noderoles --


def test_a_noderole_that_is_refreshed_or_cancelled_names_the_login_and_is_in_the_answer() -> None:
    made = world()
    put(made, "app@n", State.ACTIVE)
    found = decided(NoderoleRefresh(noderoles=("app@n",)), {ReadWorld: made})
    (record,) = (each.data for each in found.written if isinstance(each.data, NodeRole))
    assert (record.refresh, record.by, found.answer.chosen) == (True, "ann", ("app@n",))
    put(made, "app@n", State.TRANSITION, run="r1")
    found = decided(NoderoleCancel(noderoles=("app@n",), reason="enough"), {ReadWorld: made})
    (record,) = (each.data for each in found.written if isinstance(each.data, NodeRole))
    assert (record.cancel_reason, found.answer.chosen) == ("enough (ann)", ("app@n",))


def test_a_named_noderole_that_cannot_be_checked_refuses_the_check_of_all() -> None:
    made = world()
    made.put(Stored(Role(barclamp="b", jig="script", check="true"), 0), "app")
    put(made, "app@n", State.ACTIVE)
    put(made, "app@m", State.TODO)
    assert [*decided(NoderoleCheck(noderoles=("app@n",)), {ReadWorld: made}).answer.asked] == ["app@n"]
    with pytest.raises(Conflict, match="app@m is TODO, and only ACTIVE noderoles are checked"):
        decided(NoderoleCheck(noderoles=("app@n", "app@m")), {ReadWorld: made})


def test_the_drift_of_all_noderoles_has_those_that_have_drifted() -> None:
    made = world()
    for name, drift in (("a@n", Drift.DRIFTED), ("b@n", Drift.IN_SYNC), ("c@n", None)):
        checked = CheckResult(run="0000000007", at=1.0, drift=drift, epoch=7) if drift else None
        put(made, name, State.ACTIVE, checked=checked)
    found = decided(NoderoleDrift(), {ReadWorld: made, ReadRunsAt: [None]})
    assert [row.noderole for row in found.answer.rows] == ["a@n"]


def test_an_attribute_that_only_one_of_two_noderoles_has_is_a_difference() -> None:
    made = world()
    for name, template in (("app", {"size": 1}), ("web", {})):
        made.put(Stored(Role(barclamp="b", jig="noop", template=template), 0), name)
        put(made, f"{name}@n", State.TODO)
    for one, other in (("app@n", "web@n"), ("web@n", "app@n")):
        operation = NoderoleAttributesDiff(noderole=one, other=other, places=("size",))
        found = decided(operation, {ReadWorld: made, ReadBlobs: {}})
        assert [each.place for each in found.answer.differences] == ["size"]


@pytest.mark.parametrize(
    ("record", "waits"),
    [
        (NodeRole(state=State.TODO, since=0.0), True),
        (NodeRole(state=State.BLOCKED, since=0.0), True),
        (NodeRole.of(state=State.ACTIVE, since=0.0, refresh=True), True),
        (NodeRole(state=State.ACTIVE, since=0.0), False),
        (NodeRole.of(state=State.TRANSITION, since=0.0, refresh=True), False),
        (NodeRole(state=State.ERROR, since=0.0), False),
    ],
)
def test_a_log_is_waited_for_while_its_noderole_is_to_run(record: NodeRole, waits: bool) -> None:
    assert runlogs.waits(record) is waits


def test_a_log_that_no_page_has_is_explained_by_the_annealers_of_its_host() -> None:
    daemon = Daemon(host="h", pid=1, version="1", started=0.0)
    for annealers, sentence in (
        ({}, "no annealer runs on h now"),
        ({"a": daemon}, "the annealer on h serves no pages: set http.listen there"),
        ({"a": replace(daemon, pages="127.0.0.1:80")}, "to that host alone, on 127.0.0.1:80"),
    ):
        assert sentence in runlogs._unreached("h", annealers)


# -- nodes --


def test_a_selector_whose_nodes_are_all_gone_asks_for_no_agreement() -> None:
    found = decided(NodeDelete(selector="tag:web"), {ReadWorld: world(), ResolveNodes: ("n",)})
    assert found.answer == NodesDeleted(asked=("n",))
    assert not [each for each in found.asked if isinstance(each, Agreement)]


@pytest.mark.parametrize("reason", [None, "no disk"], ids=["under way", "failed"])
def test_a_machine_that_is_called_dead_while_it_is_installed_goes_on_and_the_answer_says_so(reason: str | None) -> None:
    made = world()
    made.put_node("n", Node(alive=True), 5)
    generation = put(made, "os@n", State.TRANSITION).record.generation
    times = {"since": 0.0, "started": 0.0, "deadline": 9.0}
    secrets = {"nonce": "0" * 32, "token_digest": "0" * 64}
    made.put(
        Stored(
            Installation(noderole="os@n", generation=generation, run="r", epoch=1, reason=reason, **times, **secrets), 0
        ),
        "n",
    )
    found = decided(NodeDead(nodes=("n",)), {ReadWorld: made, ResolveNodes: ("n",)})
    said = [note.rpartition("; ")[2] for note in found.answer.notes]
    assert said == ([] if reason else ["to end it: nodepool-ocb noderole cancel os@n"])
    assert any(isinstance(each.data, NodeRole) for each in found.written) is bool(reason)


@pytest.mark.parametrize(
    ("assignment", "problem"),
    [
        (
            "host_keys=oops",
            "host_keys=oops: 'oops' is no host key; write 'TYPE KEY', as in 'ssh-ed25519 AAAAC3Nz...', from ssh-keyscan HOST",
        ),
        (
            "zzzzzz=1",
            "a node has no field 'zzzzzz'; known are alive, available, admin, bootenv, allow_install, user, rack, tags,"
            " addresses, host_keys, macs, labels.NAME, hints.NAME",
        ),
    ],
)
def test_a_field_of_a_node_that_cannot_be_set_is_explained(assignment: str, problem: str) -> None:
    with pytest.raises(Invalid) as refused:
        assignments.node_fields(Node(), [assignment])
    assert refused.value.problems == (problem,)


def test_an_attribute_that_is_not_set_is_told_with_those_that_are() -> None:
    with pytest.raises(NotFound, match=r"^a/x is not set here; set here: a/b, c$"):
        attributes.unset({"c": 2, "a": {"b": 1}}, ["a/x"])
    with pytest.raises(NotFound, match=r"set here: nothing$"):
        attributes.unset({}, ["a"])


# -- roles, deployments and records --


def test_an_import_reads_again_only_for_noderoles_that_rest_on_a_changed_role() -> None:
    made = world()
    put(made, "app@n", State.ACTIVE, given="d1gest")
    put(made, "web@m", State.ACTIVE, given="d1gest")
    concerned: list[str] = []

    def sentences(_: World, near: Callable[[Any], bool]) -> Iterator[object]:
        concerned.extend(vertex.name for vertex in made.vertices() if near(vertex))
        yield from ()
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importing.outdated, "sentences", sentences)
        Decided(importing._outdated(made, {paths.role("app")}), {ReadWorld: made})
        assert concerned == ["app@n"]
        assert Decided(importing._outdated(made, {paths.role("other")}), {}).asked == []


def test_a_deployment_is_deleted_with_its_own_task_list() -> None:
    made = world()
    made.put(Stored(Structure(), 1))
    made.put(Stored(Deployment(), 4), "lab")
    gone = HistoryDeletions(top=[], below=[], emptied=[])
    answers = {
        ReadWorld: made,
        Agreement: None,
        ReadDeletions: [Delete(paths.deployment("lab"), 4)],
        ReadHistory: gone,
        ReadTaskList: [Delete("/ocb/tasks/deployments/lab", 2)],
    }
    found = decided(DeploymentDelete(name="lab"), answers)
    assert ReadTaskList("lab") in found.asked
    assert {each.path for each in found.written} >= {paths.deployment("lab"), "/ocb/tasks/deployments/lab"}


def test_a_record_is_shown_with_the_names_below_it() -> None:
    znode = SimpleNamespace(version=3, data=b"{}", ephemeral_owner=0, mtime=5.0)
    answers = {ReadZnode: FoundZnode(cast(Any, znode), "Node", None), ReadChildren: ["claim", "fence"]}
    answer = decided(RecordShow(path=paths.node("n")), answers).answer
    assert (answer.below, answer.version, answer.bytes, answer.session) == (["claim", "fence"], 3, 2, None)


@pytest.mark.parametrize(
    ("path", "locks"),
    [
        ("/ocb/rollouts/lab/0000000001/groups/g", [paths.rollout_lock("lab", "0000000001")]),
        ("/ocb/rollouts/lab/0000000001/nodes/0000", [paths.rollout_lock("lab", "0000000001")]),
        ("/ocb/tasks/runs/lab/0000000001/nodes/0000", [paths.task_run_lock("lab", "0000000001")]),
        ("/ocb/roles/ntp", []),
    ],
)
def test_a_part_of_an_execution_is_deleted_under_the_lock_of_its_driver(path: str, locks: Sequence[str]) -> None:
    assert Decided(deleting._locks(path), {}).answer == locks


# -- rollouts --


@pytest.mark.parametrize(("runs", "after"), [(True, ()), (False, (NO_ANNEALER,))])
def test_a_verb_on_a_rollout_warns_only_if_no_annealer_is_running(runs: bool, after: tuple[str, ...]) -> None:
    strategy = Strategy(groups=(Group(name="all", selectors=(Selector(node_names=("n",)),)),))
    versions = Versions(RolloutPointer(newest="0000000001", over=False), 1, {"": 0})
    answers = {
        ReadRolloutDeployments: ["lab"],
        ReadNewestRollout: "0000000001",
        ReadRolloutVersions: (plan.begin(strategy, {"n": Node()}, 1.0), versions),
        ReadRolloutDriver: None,
        AnnealerRuns: runs,
    }
    assert decided(RolloutCancel(), answers).answer.after == after


# -- history --


@pytest.mark.parametrize(("fields", "since"), [({"since": 5.0}, 5.0), ({"since_seconds": 2.0}, 7.0), ({}, None)])
def test_history_is_read_from_the_time_that_is_asked_for(fields: dict[str, float], since: float | None) -> None:
    found = decided(HistoryRead(**fields), {RefuseUnknownNames: None, FindEntries: []})
    (lookup,) = (each for each in found.asked if isinstance(each, FindEntries))
    assert lookup.wanted.since == since


@pytest.mark.parametrize(("since", "first"), [(None, 5), (1.0, -1)])
def test_events_begin_behind_the_newest_entry_or_at_a_time(since: float | None, first: int) -> None:
    source = SimpleNamespace(_wanted=EntryFilter(since=since))
    assert events._EventSource._begin(cast(Any, source), [3, 5]) == first
    assert events._EventSource._begin(cast(Any, source), []) == -1


# -- shells --


def test_a_new_key_is_the_first_of_its_file(tmp_path: Path) -> None:
    older = files.generate(tmp_path / "keys")
    newer = files.generate(tmp_path / "keys")
    assert (older.keys, newer.keys) == ((older.key,), (newer.key, older.key))
    assert newer.file == str(tmp_path / "keys")


def test_a_follower_reads_again_as_soon_as_it_is_woken() -> None:
    woken: list[Callable[[], None]] = []

    class Source:
        def load(self) -> str:
            return "all"

        def refresh(self) -> str:
            return "changed"

        sweep = refresh

    def make(_: object, wake: Callable[[], None]) -> Source:
        woken.append(wake)
        return Source()

    @contextmanager
    def session(**_: object) -> Iterator[object]:
        yield SimpleNamespace(sync=lambda: None)

    changes = Following(cast(Performer, SimpleNamespace(session=session)), None).changes(make)
    assert next(changes) == "all"
    woken[0]()
    assert next(changes) == "changed"
    changes.close()  # type: ignore[attr-defined]  # it is a generator


def test_a_note_of_an_incomplete_call_names_the_last_written_change() -> None:
    caller = ListeningCaller()
    performer = Performer(Call(login="ann", host="desk"), caller, Settings)
    performer.journal.writes = ("node",)
    performer._note_how_far([Set(paths.node(name), Node(), 1) for name in ("n1", "n2")])
    assert caller.notes == ["2 changes written, the last of n2; the same command goes on with the rest"]


def test_the_error_of_a_performer_that_gives_up_has_the_path_of_the_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(performing, "ATTEMPTS", 1)

    def decide() -> Iterator[Sequence[Change]]:
        raise Stale("it changed", paths.node("n"))
        yield ()

    performer = Performer(Call(login="ann", host="desk"), ListeningCaller(), Settings)
    with pytest.raises(Stale, match="others keep changing the same things") as given_up:
        performer.decided(cast(Any, None), decide)
    assert given_up.value.path == paths.node("n")


def test_an_agreement_covers_nothing_unless_it_says_so() -> None:
    assert Agreement("delete node n").covers == frozenset()


@pytest.mark.parametrize(
    ("until", "seconds"), [(None, -1.7e308), (None, 1e12), (-1.0, None), (1e12, None), (float("nan"), None)]
)
def test_an_end_that_is_no_time_is_refused(until: float | None, seconds: float | None) -> None:
    with pytest.raises(Invalid, match="is no time"):
        situation().end(until, seconds)
