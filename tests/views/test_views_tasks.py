"""Plans of task lists as they are shown, and their graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.tasks import reading
from nodepool_ocb.tasks.compiling import compile
from nodepool_ocb.tasks.plan import Member
from nodepool_ocb.tasks.selection import Selection
from nodepool_ocb.tasks.tasklist import Relation, Task, TaskKind, TaskList
from nodepool_ocb.views.tasks import drawing, lists, plans
from nodepool_ocb.views.view import plain
from tests.views.small_tasks import LIST, N1, N2, PLAN

ROOT: Final = Path(__file__).parents[2]


def edges(drawn: drawing.Drawing) -> set[tuple[str, str]]:
    return set(drawing.document(drawn).edges)


# -- plans --


def test_a_plan_is_shown_in_waves_each_task_with_its_nodes() -> None:
    rows = plans.document("lab", PLAN, LIST).runs
    assert [(row.wave, row.task, row.nodes) for row in rows] == [
        (1, "net", (N1,)),
        (2, "site", (N1,)),
        (3, "net", (N2,)),
        (4, "site", (N2,)),
        (5, "report", (N1,)),
    ]


def test_instances_of_one_wave_stand_in_one_row_in_listing_order() -> None:
    free = plans.document("lab", _with(parents=[[]] * 9, skipped={}), LIST)
    assert [(row.wave, row.task, row.nodes) for row in free.runs][:2] == [(1, "net", (N2, N1)), (1, "site", (N2, N1))]


def test_what_is_not_run_is_grouped_by_its_reason_and_counted() -> None:
    found = plans.document("lab", _with(skipped={7: "condition", 8: "not selected", 6: "not selected"}), LIST)
    assert [plain(each) for each in found.reasons] == [
        {"reason": "not selected", "instances": 2, "tasks": ["report", "clean"]},
        {"reason": "condition", "instances": 1, "tasks": ["report"]},
    ]
    assert len(found.left_out) == 3


def test_a_task_that_no_node_has_stands_in_a_plan_with_that_reason() -> None:
    more = (
        Task(id="typo", kind=TaskKind.SHELL, roles=("wbe",)),
        Task(id="both", kind=TaskKind.SHELL, roles=("mongo", "cinder")),
        Task(id="master", kind=TaskKind.SHELL, roles=("master",)),
        Task(id="empty", kind=TaskKind.GROUP, roles=("mongo",)),
        Task(id="grouped", kind=TaskKind.SHELL, roles=("empty",)),
    )
    found = plans.document("lab", PLAN, TaskList((*LIST.tasks, *more)))
    reasons = {each.task: each.reason for each in found.left_out if each.node is None}
    assert reasons == {
        "typo": "runs on no node: no node has the role wbe; did you mean `web`?",
        "both": "runs on no node: no node has one of the roles mongo, cinder",
        "master": "runs on no node: no admin node takes part",
        "grouped": "runs on no node: no node has the role mongo",
    }
    assert sorted(task for each in found.reasons if each.instances == 0 for task in each.tasks) == sorted(reasons)
    assert found.summary == "5 instances of tasks to run on 2 nodes, 2 not; 4 tasks without a node"


def test_the_summary_of_a_plan_counts_tasks_and_the_nodes_that_have_any() -> None:
    assert plans.document("lab", PLAN, LIST, everything=True).summary == plans.document("lab", PLAN, LIST).summary
    skipped = dict.fromkeys((3, 4, 7, 8), "not selected")
    assert plans.document("lab", _with(skipped=skipped), LIST).summary == "3 instances of tasks to run on 1 node, 4 not"


def test_a_list_is_drawn_with_what_is_selected_of_it() -> None:
    drawn = drawing.marked(drawing.of_list(LIST), Selection(start=("net",), end=("deploy",)))
    assert {corner.task for corner in drawn.corners if corner.skipped is None} == {"net", "site", "deploy"}
    with pytest.raises(Invalid, match="no task is called depoy; did you mean `deploy`"):
        drawing.marked(drawing.of_list(LIST), Selection(end=("depoy",)))


def test_stages_and_barriers_stand_in_a_plan_for_those_who_ask() -> None:
    quiet = {row.task for row in plans.document("lab", PLAN, LIST).runs}
    every = {row.task: row.type for row in plans.document("lab", PLAN, LIST, everything=True).runs}
    assert {"deploy", "barrier.1"}.isdisjoint(quiet)
    assert (every["deploy"], every["barrier.1"]) == ("stage", "barrier")


def test_of_many_nodes_a_table_names_the_first_ones() -> None:
    row = plans.PlannedTask(wave=1, task="net", type="shell", nodes=tuple(f"n{each}" for each in range(20)))
    assert plans.words(row).nodes == "n0, n1, n2, n3, n4, n5, n6, n7 and 12 more"


# -- lists --


def test_a_check_counts_tasks_by_type() -> None:
    found = lists.checked(LIST, ["odd"])
    assert found.types == {"group": 1, "puppet": 1, "shell": 3, "stage": 1}
    assert next(map(plain, lists.types(found))) == {"type": "group", "tasks": 1}


def test_a_task_is_shown_with_what_is_just_before_and_after_it() -> None:
    shown = lists.task(LIST, "site")
    assert (shown.after, shown.before) == (("net",), ("deploy",))
    assert lists.task(LIST, "clean").cross_depends == ("report on *",)
    with pytest.raises(NotFound, match="no task sites in this list; did you mean `site`"):
        lists.task(LIST, "sites")


# -- graphs --


def test_the_graph_of_a_list_has_an_edge_for_every_relation_that_it_names() -> None:
    assert edges(drawing.of_list(LIST)) == {
        ("web", "deploy"),
        ("net", "deploy"),
        ("net", "site"),
        ("site", "deploy"),
        ("deploy", "report"),
        ("report", "clean"),
    }


def test_a_group_comes_after_the_tasks_that_it_names() -> None:
    tasks = TaskList((Task(id="net", kind=TaskKind.SHELL), Task(id="web", kind=TaskKind.GROUP, tasks=("net",))))
    assert edges(drawing.of_list(tasks)) == {("net", "web")}


def test_a_relation_between_nodes_may_name_tasks_by_a_pattern() -> None:
    every = Relation(name="/ceph-.*/")
    names = ("ceph-mon", "ceph-osd", "check")
    tasks = TaskList(tuple(Task(id=each, kind=TaskKind.SHELL, cross_depends=(every,)) for each in names))
    assert ("ceph-mon", "check") in edges(drawing.of_list(tasks))
    assert ("check", "ceph-osd") not in edges(drawing.of_list(tasks))


def test_the_graph_of_a_plan_has_a_corner_for_each_instance_with_its_state() -> None:
    drawn = drawing.of_plan(PLAN, LIST, {f"net@{N1}": "successful"})
    corners = {corner.name: corner for corner in drawn.corners}
    assert (corners[f"net@{N1}"].state, corners["deploy"].node) == ("successful", None)
    assert corners[f"clean@{N2}"].skipped == "not selected"
    assert ("barrier.1", f"net@{N2}") in edges(drawn)


def test_only_a_task_and_its_predecessors_are_drawn() -> None:
    drawn = drawing.above(drawing.of_list(LIST), "site")
    assert {corner.name for corner in drawn.corners} == {"net", "site"}
    with pytest.raises(NotFound, match="did you mean `site`"):
        drawing.above(drawn, "sites")


def test_what_is_taken_out_leaves_the_order_of_the_rest() -> None:
    drawn = drawing.without(drawing.of_list(LIST), lambda corner: corner.type in ("stage", "group"))
    assert edges(drawn) == {("net", "site"), ("net", "report"), ("site", "report"), ("report", "clean")}


def test_a_graph_that_would_have_too_many_edges_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "MOST_EDGES", 3)
    with pytest.raises(Invalid, match="more than 3 edges"):
        drawing.without(drawing.of_list(LIST), lambda corner: corner.type == "stage")


def test_edges_that_others_imply_are_left_out_of_a_reduced_graph() -> None:
    assert ("net", "deploy") not in edges(drawing.reduced(drawing.of_list(LIST)))
    assert len(edges(drawing.reduced(drawing.of_list(LIST)))) == 5


def test_a_circle_has_no_reduction_and_is_named() -> None:
    tasks = TaskList(tuple(Task(id=a, kind=TaskKind.SHELL, requires=(b,)) for a, b in ("ab", "ba")))
    with pytest.raises(Invalid, match="circle at or above these: a, b"):
        drawing.reduced(drawing.of_list(tasks))


def test_colours_are_those_of_fuel_and_a_state_is_also_a_word() -> None:
    fills = {corner.task: drawing.fill(corner) for corner in drawing.of_list(LIST).corners}
    assert (fills["web"], fills["deploy"], fills["net"]) == ("lightskyblue", "red", "yellowgreen")
    drawn = drawing.of_plan(PLAN, LIST, {f"net@{N1}": "failed", f"site@{N1}": "not run"})
    text = drawing.dot(drawn)
    assert f'"net@{N1}" [label="net\\nshell\\nfailed", fillcolor="red"];' in text
    assert f'"site@{N1}" [label="site\\npuppet\\nnot run", fillcolor="orange"];' in text
    assert f'"clean@{N2}" [label="clean\\nshell\\nskipped", fillcolor="gray95"];' in text
    assert (text.count("subgraph"), text.count("->")) == (2, 10)


def test_mermaid_draws_the_same() -> None:
    text = drawing.mermaid(drawing.of_plan(PLAN, LIST))
    assert '    n0["net<br/>shell"]:::yellowgreens' in text
    assert (text.count("subgraph"), text.count("-->")) == (2, 10)
    assert "classDef gray95s fill:#f2f2f2" in text


def _with(**fields: object) -> plans.TaskPlan:
    return replace(PLAN, **fields)


# -- the example of Fuel's specification --


def test_the_seeds_example_is_planned_in_the_seeds_order() -> None:
    tasks = reading.read_files([ROOT / "tools/fuel/tasks.yaml"]).tasks
    roles = {6: "cinder", 7: "network", 8: "compute"}
    nodes = [
        Member(name=f"node-{uid}", uid=str(uid), roles=(roles.get(uid, "controller"),))
        for uid in (1, 4, 2, 3, 5, 6, 7, 8)
    ]
    rows = plans.document("lab", compile(tasks, nodes), tasks).runs
    pairs = [(each, ("setup_network", "setup_services")) for each in ("1", "4 2", "3 5", "6 7", "8")]
    assert [(" ".join(node.removeprefix("node-") for node in row.nodes), row.task) for row in rows] == [
        (nodes, task) for nodes, both in pairs for task in both
    ]
