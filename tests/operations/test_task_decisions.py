"""Decisions about lists and runs of tasks, driven by hand."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Ambiguous, Conflict, Invalid
from nodepool_ocb.model.records import Deployment
from nodepool_ocb.operations.operation import Steps
from nodepool_ocb.operations.reads.tasks.lists import ListTaskLists, ReadStoredList
from nodepool_ocb.operations.reads.tasks.runs import ReadRunFacts, ReadSucceeded
from nodepool_ocb.operations.selection import MatchNodes
from nodepool_ocb.operations.tasks import drawing, lists, planning, running, storing
from nodepool_ocb.operations.tasks.choosing import TaskChoice
from nodepool_ocb.operations.tasks.lists import TasksList
from nodepool_ocb.operations.tasks.storing import ReleaseFiles, TasksSync
from nodepool_ocb.tasks.records import ListOwner
from tests.engine.worlds import world
from tests.operations.test_decisions import Decided, decided


def anything(**fields: object) -> Any:
    """A value with these attributes."""
    return cast(Any, SimpleNamespace(**fields))


def steps(answer: object) -> Steps[Any]:
    """Steps that ask nothing."""
    yield from ()
    return answer


@pytest.mark.parametrize(
    ("written", "file"), [(None, "/etc/astute.yaml"), ("/etc/facts", "/etc/facts"), ("none", None)]
)
def test_the_file_of_facts_is_the_named_one_or_the_default_or_none(written: str | None, file: str | None) -> None:
    assert Decided(running._facts_file(anything(again=None), written), {}).answer == file


def test_a_retry_keeps_the_file_of_facts_of_its_run() -> None:
    prepared = anything(again="0000000003", deployment="lab")
    answers = {ReadRunFacts: {"tasks": {"facts_file": "/etc/kept"}}}
    assert Decided(running._facts_file(prepared, None), answers).answer == "/etc/kept"
    assert Decided(running._facts_file(prepared, "/etc/other"), answers).answer == "/etc/other"


def test_conditions_without_settings_are_explained_by_the_upload_of_settings() -> None:
    with pytest.raises(Invalid) as refused, planning._knowing_of_settings("lab", {}):
        raise Invalid(("task a: condition: settings:b is nothing",))
    assert refused.value.problems == (
        "deployment lab has no settings, and conditions ask for them; first: nodepool-ocb tasks upload --deployment lab"
        " --settings FILE",
        "task a: condition: settings:b is nothing",
    )


def test_events_leave_out_what_succeeded_and_does_not_run_again_on_them() -> None:
    tasks = anything(
        tasks=[
            anything(id="on-event", reexecute_on=("disk",), refresh_on=()),
            anything(id="on-any", reexecute_on=(), refresh_on=("*",)),
            anything(id="plain", reexecute_on=(), refresh_on=("net",)),
        ]
    )
    past = anything(deployment="lab", over=())
    answers = {ReadSucceeded: {("on-event", "n1"), ("on-any", "n1"), ("plain", "n1"), ("plain", "")}}
    assert Decided(planning._deployed(past, tasks, TaskChoice(events=("disk",))), answers).answer == {("plain", "n1")}
    assert Decided(planning._deployed(past, tasks, TaskChoice()), {}).answer == frozenset()


def test_warnings_of_a_plan_name_settings_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning.sources, "of_plan", lambda *_: [])
    monkeypatch.setattr(planning.sources, "warnings", lambda _: steps(["a file"]))
    monkeypatch.setattr(planning.membership, "warnings", lambda *_: ["a node"])
    prepared = anything(
        plan=None, tasks=None, members=[], deployment="lab", missing=["a/b"], stored=anything(warnings=["a task"])
    )
    task, setting, file, node = Decided(planning.warnings(world(), prepared), {}).answer
    assert (task, file, node) == ("a task", "a file", "a node")
    assert setting.startswith("conditions take a setting for null, since the list is --lenient: a/b;")


def test_a_plan_without_machines_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    made.put(Stored(Deployment(), 1), "lab")
    monkeypatch.setattr(planning.earlier, "load", lambda _: steps(anything(retried=None)))
    monkeypatch.setattr(planning.lists, "loaded", lambda _: steps(anything(tasks=None, settings={})))
    with pytest.raises(Conflict, match="deployment lab has no node that is a machine; nodepool-ocb node create FQDN"):
        Decided(planning.prepare(made, "lab", TaskChoice()), {MatchNodes: None})


def test_the_list_of_a_release_below_another_is_named_by_its_release() -> None:
    found = anything(there=True, texts={"a.yaml": "[]"}, record=anything(lenient=True, compat_prefix=False))
    below = Decided(lists.base("9.0"), {ReadStoredList: found}).answer
    assert [layer.origin for layer in below.layers] == [str(ListOwner(False, "9.0"))]
    assert Decided(lists.base(None), {}).answer.layers == ()


@pytest.mark.parametrize(("since", "shown"), [(5.0, 5.0), (0.0, None)])
def test_a_stored_list_is_listed_with_its_time(since: float, shown: float | None) -> None:
    record = anything(release=None, tasks=3, files=1, since=since, by="ann")
    answers = {ListTaskLists: [anything(owner=ListOwner(True, "lab"), record=record, configured=False)]}
    (row,) = decided(TasksList(), answers).answer
    assert (row.kind, row.name, row.tasks, row.since, row.by) == ("deployment", "lab", 3, shown, "ann")


def test_a_choice_of_nodes_belongs_to_the_plan_of_a_deployment() -> None:
    choice = TaskChoice(nodes=("1",))
    drawing.refuse_contradictions(None, "lab", choice, tasks_only=False)
    drawing.refuse_contradictions(None, "lab", TaskChoice(), tasks_only=True)
    for release, deployment, tasks_only in (("9.0", None, False), (None, "lab", True)):
        with pytest.raises(Ambiguous, match="chooses instances; give --deployment without --tasks-only"):
            drawing.refuse_contradictions(release, deployment, choice, tasks_only=tasks_only)


@pytest.mark.parametrize("switch", ["lenient", "compat_prefix"])
def test_a_sync_stores_each_release_with_the_switches_of_the_call(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uploads: list[Any] = []

    def stored(upload: object, *_: object) -> Iterator[object]:
        uploads.append(upload)
        return steps("row")

    monkeypatch.setattr(storing, "stored", stored)
    files = ReleaseFiles(release="9.0", how="its folder", files=cast(Any, anything()))
    assert decided(TasksSync(releases=(files,), **{switch: True}), {}).answer.rows == ("row",)
    assert [(each.lenient, each.compat_prefix) for each in uploads] == [
        (switch == "lenient", switch == "compat_prefix")
    ]
