"""What goes on where a tolerance bears failures: only what a relation, or a group, still has something successful for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.tasks.compiling import compile, contracted
from nodepool_ocb.tasks.plan import Member
from nodepool_ocb.tasks.runs import making
from nodepool_ocb.tasks.runs.records import Outcome, TaskRunState
from nodepool_ocb.tasks.tasklist import Task, TaskList
from tests.tasks.lists import ONE_BY_ONE, by, crossing, group, listing, nodes, stage, task
from tests.tasks.test_run_simulation import Simulated


def ran(tasks: TaskList, members: list[Member], *failing: str, skipped: tuple[str, ...] = ()) -> dict[str, str]:
    """TASK@NODE → how it ended, where these fail; the same whatever is done first. ``state``: of the run."""
    plan = contracted(
        compile(tasks, members, judge=lambda each, on: "no" if on and f"{each.id}@{on.name}" in skipped else None)
    )
    found: list[dict[str, str]] = []
    for seed in range(5):
        fails = {vertex: 1 for vertex in range(len(plan)) if plan.name(vertex) in failing}
        assert len(fails) == len(failing)
        there = Simulated(plan, fails, tolerances=tuple(making.tolerances(tasks, plan)))
        rows = {f"{row.task}@{row.node}" if row.node else row.task: str(row.outcome) for row in there.to_the_end(seed)}
        found.append(rows | {"state": str(there.running.head.state)})
    assert all(each == found[0] for each in found)
    return found[0]


def well(found: dict[str, str]) -> set[str]:
    return {name for name, outcome in found.items() if outcome == Outcome.SUCCESSFUL and "@" in name}


def everyone(tolerance: str) -> Task:
    return group("all", roles="/.*/", fault_tolerance=tolerance)


THREE = nodes(n1="one", n2="two", n3="three")


@pytest.mark.parametrize("tolerance", ["1", "100%"])
def test_a_task_whose_one_named_prerequisite_failed_does_not_run(tolerance: str) -> None:
    """x on n1 waits for b on n2 by name, and b fails there; b on n1 and n3 is no prerequisite."""
    tasks = listing(
        everyone(tolerance),
        task("b", roles="one two three"),
        task("x", roles="one", cross_depends=[crossing("b", "two")]),
    )
    found = ran(tasks, THREE, "b@n2")
    assert (found["x@n1"], found["state"]) == (Outcome.NOT_RUN, TaskRunState.FAILED)
    assert well(found) == {"b@n1", "b@n3"}


def test_two_relations_to_one_task_bear_each_for_itself() -> None:
    tasks = listing(
        everyone("1"),
        task("b", roles="one two three"),
        task("x", roles="one", cross_depends=[crossing("b", "two"), crossing("b", "three")]),
        task("y", roles="one", cross_depends=[crossing("b", "two", "three")]),
    )
    found = ran(tasks, THREE, "b@n2")
    assert (found["x@n1"], found["y@n1"]) == (Outcome.NOT_RUN, Outcome.SUCCESSFUL)


def test_a_relation_of_which_all_instances_failed_lets_nothing_go_on_also_at_100_percent() -> None:
    tasks = listing(
        everyone("100%"), task("b", roles="two three"), task("x", roles="one", cross_depends=[crossing("b")])
    )
    assert ran(tasks, THREE, "b@n2", "b@n3")["x@n1"] == Outcome.NOT_RUN
    assert ran(tasks, THREE, "b@n2")["x@n1"] == Outcome.SUCCESSFUL


def test_a_skipped_instance_is_none_that_succeeded_nor_is_what_it_waits_for() -> None:
    tasks = listing(
        everyone("100%"),
        task("before", roles="three"),
        task("b", roles="two three", requires="before"),
        task("x", roles="one", cross_depends=[crossing("b")]),
    )
    assert ran(tasks, THREE, "b@n2", skipped=("b@n3",))["x@n1"] == Outcome.NOT_RUN


@pytest.mark.parametrize(("failing", "after"), [(2, Outcome.SUCCESSFUL), (3, Outcome.NOT_RUN)])
@pytest.mark.parametrize("strategy", [None, ONE_BY_ONE, by(2)])
def test_a_group_goes_before_another_as_long_as_one_of_its_nodes_succeeded(
    strategy: object, failing: int, after: Outcome
) -> None:
    tasks = listing(
        group("web", fault_tolerance="100%", strategy=strategy),
        group("db", requires="web"),
        task("site", roles="web"),
        task("data", roles="db"),
    )
    members = nodes(n1="web", n2="web", n3="web", n4="db")
    found = ran(tasks, members, *(f"site@n{number}" for number in range(1, failing + 1)))
    assert found["data@n4"] == after
    assert [found[f"site@n{number}"] for number in (1, 2, 3)].count("failed") == failing, "chunks go on"


def test_a_task_that_is_limited_goes_on_with_its_next_node() -> None:
    tasks = listing(group("web", fault_tolerance="1"), task("site", roles="web", strategy=ONE_BY_ONE))
    found = ran(tasks, nodes(n1="web", n2="web", n3="web"), "site@n1")
    assert well(found) == {"site@n2", "site@n3"}
    assert found["state"] == TaskRunState.SUCCESSFUL


def test_a_stage_needs_each_task_before_it_somewhere() -> None:
    tasks = listing(
        stage("done"),
        everyone("1"),
        task("a", roles="one two", required_for="done"),
        task("b", roles="three", required_for="done"),
        task("after", roles="one", requires="done"),
    )
    assert ran(tasks, THREE, "a@n2")["after@n1"] == Outcome.SUCCESSFUL
    assert ran(tasks, THREE, "b@n3")["after@n1"] == Outcome.NOT_RUN


def test_a_relation_to_more_instances_than_a_barrier_has_parents_is_one_relation() -> None:
    members = nodes(n0="one", **{f"n{number}": "many" for number in range(1, 251)})
    tasks = listing(
        group("many", fault_tolerance="100%"),
        task("b", roles="many"),
        task("x", roles="one", cross_depends=[crossing("b")]),
    )
    plan = contracted(compile(tasks, members))
    fails = {vertex: 1 for vertex in range(len(plan)) if plan.name(vertex) in {f"b@n{n}" for n in range(1, 231)}}
    there = Simulated(plan, fails, tolerances=tuple(making.tolerances(tasks, plan)))
    last = next(row for row in there.to_the_end(1) if row.task == "x")
    assert last.outcome == Outcome.SUCCESSFUL


def test_without_a_tolerance_a_plan_has_no_barriers_for_it() -> None:
    tasks = listing(task("b", roles="two three"), task("x", roles="one", cross_depends=[crossing("b")]))
    plan = compile(tasks, THREE)
    assert not plan.barriers
    tolerant = compile(TaskList((everyone("1"), *tasks.tasks)), THREE)
    assert {"b.all"} <= set(tolerant.tasks)
    assert replace(contracted(plan), roles={}).bears == {}


def test_a_group_whose_last_chunk_failed_goes_before_another() -> None:
    tasks = listing(
        group("web", fault_tolerance="1", strategy=ONE_BY_ONE),
        group("db", requires="web"),
        task("site", roles="web"),
        task("data", roles="db"),
    )
    assert ran(tasks, nodes(n1="web", n2="web", n3="db"), "site@n2")["data@n3"] == Outcome.SUCCESSFUL


def test_a_group_needs_each_task_that_is_required_for_it() -> None:
    tasks = listing(
        everyone("1"),
        group("one"),
        task("a", roles="three", required_for="one"),
        task("b", roles="two", required_for="one"),
        *(task(name, roles="one") for name in ("site", "more", "other")),
    )
    found = ran(tasks, [*THREE, *nodes(n4="one", n5="one")], "a@n3")
    assert well(found) == {"b@n2"}
