"""Old lists, stages with numbers, and strategies: what follows what over all nodes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks.compiling import compile, contracted
from nodepool_ocb.tasks.compiling.draft import MOST_PARENTS
from nodepool_ocb.tasks.compiling.election import Selectors
from nodepool_ocb.tasks.compiling.placement import Placement, Relations
from nodepool_ocb.tasks.tasklist import Expression, Language, StrategyType, TaskStrategy
from tests.tasks.lists import (
    AT_ONCE,
    ONE_BY_ONE,
    by,
    crossing,
    graph,
    group,
    listing,
    names,
    nodes,
    on,
    order,
    stage,
    task,
    waves,
)

EIGHT = nodes(
    n1="primary-controller", n2="controller", n3="controller", n4="controller", n5="controller",
    n6="cinder", n7="ceph-osd", n8="compute",
)  # fmt: skip


def test_the_seeds_alternative_without_groups_runs_in_the_seeds_order() -> None:
    tasks = listing(
        stage("deploy"),
        task("primary-controller", "puppet", required_for="deploy", strategy=ONE_BY_ONE),
        task("controller", "puppet", requires="primary-controller", required_for="deploy", strategy=by(2)),
        task("compute", "puppet", requires="controller", strategy=AT_ONCE),
        task("cinder", "puppet", requires="controller", strategy=AT_ONCE),
        task("ceph-osd", "puppet", requires="controller", strategy=AT_ONCE),
    )
    assert names(waves(compile(tasks, EIGHT))) == [
        "primary-controller@n1",
        "controller@n2 controller@n3",
        "controller@n4 controller@n5",
        "ceph-osd@n7 cinder@n6 compute@n8",
    ]


def test_the_seeds_tasks_that_refer_to_one_another_over_nodes_are_in_order() -> None:
    tasks = listing(
        task("put_compute_into_maintenance_mode", "puppet", roles="primary-controller"),
        task("migrate_vms_from_compute", roles="primary-controller", requires="put_compute_into_maintenance_mode"),
        task("reinstall_ovs", roles="compute", requires="put_compute_into_maintenance_mode migrate_vms_from_compute"),
        task("make_compute_available", roles="primary-controller", requires="reinstall_ovs"),
    )
    assert names(waves(compile(tasks, EIGHT))) == [
        "put_compute_into_maintenance_mode@n1",
        "migrate_vms_from_compute@n1",
        "reinstall_ovs@n8",
        "make_compute_available@n1",
    ]


@pytest.mark.parametrize("other", [group("web"), task("new", version=(2, 0, 0), roles="web")])
def test_requires_means_other_nodes_in_old_lists_without_groups_alone(other: object) -> None:
    some = (task("a", roles="web"), task("b", roles="db", requires="a"))
    members = nodes(n1="web", n2="db")
    assert on(compile(listing(*some), members), "a@n1", "b@n2")
    assert not order(compile(listing(*some, other), members))  # type: ignore[arg-type]


def test_a_task_that_is_parallel_without_an_amount_runs_everywhere_at_once() -> None:
    """Seed 002, "Alternatives": ``strategy: {type: parallel}`` of compute, cinder and ceph-osd."""
    alone = task("compute", "puppet", strategy=AT_ONCE)
    assert not order(compile(listing(alone), nodes(n1="compute", n2="compute")))
    beside = task("work", roles="compute", strategy=ONE_BY_ONE)
    assert order(compile(listing(alone, beside), nodes(n1="compute", n2="compute"))) == {("work@n1", "work@n2")}


def test_requires_means_other_nodes_only_where_its_own_has_no_such_task() -> None:
    tasks = listing(task("a", roles="web"), task("b", roles="*", requires="a"))
    found = order(compile(tasks, nodes(n1="web", n2="web", n3="db")))
    assert found == {("a@n1", "b@n1"), ("a@n2", "b@n2"), ("a@n1", "b@n3"), ("a@n2", "b@n3")}


OLD = (
    stage("deploy_start"),
    stage("deploy_end", requires="deploy_start"),
    task("clear", roles="*", required_for="deploy_start"),
    task("sync", roles="*", requires="clear", required_for="deploy_start"),
    task("keys", roles="web", required_for="deploy_start"),
    task("work", roles="*", requires="deploy_start", required_for="deploy_end"),
    task("hosts", roles="*", requires="deploy_end"),
    task("look", roles="*", requires="deploy_end"),
)
TWO = nodes(n1="web", n2="web")


def test_hooks_of_old_lists_are_in_a_line_each_on_all_its_nodes() -> None:
    assert names(waves(compile(listing(*OLD), TWO))) == [
        "clear@n1 clear@n2", "sync@n1 sync@n2", "keys@n1 keys@n2", "work@n1 work@n2", "hosts@n1 hosts@n2", "look@n1 look@n2",
    ]  # fmt: skip


def test_hooks_of_lists_with_relations_between_nodes_are_not() -> None:
    new = task("new", roles="db", cross_depends=[crossing("work")])
    assert names(waves(compile(listing(*OLD, new), TWO))) == [
        "clear@n1 clear@n2 keys@n1 keys@n2",
        "sync@n1 sync@n2",
        "work@n1 work@n2",
        "hosts@n1 hosts@n2 look@n1 look@n2",
    ]


def test_the_stage_of_an_old_plugin_is_in_line_by_its_numbers() -> None:
    tasks = listing(
        *OLD,
        task("late", roles="*", stage="pre_deployment/9000"),
        task("early", roles="web", stage="pre_deployment/-10.5"),
        task("plain", roles="*", stage="pre_deployment"),
        task("last", roles="*", stage="post_deployment/1"),
        task("new", roles="db", cross_depends=[crossing("work")]),  # so that other hooks are in no line
    )
    plan = compile(tasks, nodes(n1="web", n2="db"))
    found = order(plan)
    line = ("early@n1", "plain@n1", "late@n2", "work@n1", "last@n2")
    assert set(pairwise(line)) <= found
    assert ("plain@n2", "late@n1") in found
    assert ("clear@n1", "early@n1") not in found


def test_what_is_before_and_after_deployment_is_so_in_a_list_without_stages() -> None:
    tasks = listing(
        task("update_hosts", "puppet", roles="*", stage="post_deployment", requires="upload_nodes_info"),
        task("rsync_puppet", "sync", roles="*", stage="pre_deployment", requires="keys"),
        task("keys", roles="web"),
        task("upload_nodes_info", roles="web"),
        task("look", roles="*", requires="update_hosts"),
    )
    assert names(waves(compile(tasks, nodes(n1="web", n2="")))) == [
        "keys@n1",
        "rsync_puppet@n1 rsync_puppet@n2",
        "upload_nodes_info@n1",
        "update_hosts@n1 update_hosts@n2",
        "look@n1 look@n2",
    ]


def test_what_is_before_deployment_is_so_where_deploy_is_the_stage_at_its_end() -> None:
    tasks = listing(
        stage("deploy"),
        group("web", required_for="deploy"),
        group("db", requires="web", required_for="deploy"),
        task("work", roles="web db", required_for="deploy"),
        task("rsync_puppet", "sync", roles="*", stage="pre_deployment"),
        task("update_hosts", "puppet", roles="*", stage="post_deployment"),
    )
    assert names(waves(compile(tasks, nodes(n1="web", n2="db")))) == [
        "rsync_puppet@n1 rsync_puppet@n2",
        "work@n1",
        "work@n2",
        "update_hosts@n1 update_hosts@n2",
    ]


def test_a_strategy_follows_what_is_in_order_anyway() -> None:
    tasks = listing(
        task("slow", roles="*", requires="base", strategy=ONE_BY_ONE, version=(2, 0, 0)),
        task("base", roles="*", cross_depends=[crossing("slow", "last")]),
        task("other", roles="*", requires="base", strategy=ONE_BY_ONE),
    )
    members = nodes(n1="", n2="")
    with pytest.raises(Invalid, match=r"(base|slow)@n3.* -> (slow|base)@n3"):  # it waits for itself
        compile(tasks, [*members, *nodes(n3="last")])
    tasks = listing(
        task("slow", roles="*", strategy=ONE_BY_ONE, version=(2, 0, 0)),
        task("base", roles="web", cross_depends=[crossing("slow", "last")], required_for="slow"),
    )
    found = order(compile(tasks, nodes(n1="web", n2="", n3="last")))
    assert {("slow@n2", "slow@n3"), ("slow@n3", "slow@n1"), ("slow@n3", "base@n1")} <= found


@pytest.mark.parametrize("kind", ["group", "shell"])
def test_amounts_are_numbers_above_0_or_are_evaluated(kind: str) -> None:
    def one(amount: int | Expression) -> object:
        return task("web", kind, roles="web", strategy=TaskStrategy(StrategyType.PARALLEL, amount))

    work = task("work", roles="web", version=(2, 0, 0))
    with pytest.raises(Invalid, match=r"tasks.yaml:web: web: the amount is 0; give 1 or more"):
        compile(listing(one(0), work), TWO)  # type: ignore[arg-type]
    said = Expression(Language.YAQL, "1")
    with pytest.raises(Invalid, match="the amount is an expression, which is not evaluated here"):
        compile(listing(one(said), work), TWO)  # type: ignore[arg-type]
    plan = compile(listing(one(said), work), TWO, amount_of=lambda _, said: int(said.text))  # type: ignore[arg-type]
    name = "work" if kind == "group" else "web"
    assert on(plan, f"{name}@n1", f"{name}@n2")


def test_a_named_relation_wins_over_the_order_of_groups_and_chunks() -> None:
    tasks = listing(
        group("web", strategy=ONE_BY_ONE),
        group("db", requires="web"),
        task("begin", roles="web db"),
        task("data", roles="db", requires="begin"),
        task("peer", roles="web", requires="begin", cross_depends=[crossing("begin", "web")]),
        task("users", roles="web", requires="peer", cross_depends=[crossing("data")]),
    )
    found = order(compile(tasks, nodes(n1="web", n2="web", n3="db", n4="web db")))
    assert {
        ("begin@n1", "begin@n2"),
        ("begin@n2", "peer@n1"),
        ("peer@n1", "begin@n3"),
        ("data@n3", "users@n1"),
    } <= found
    assert {("begin@n4", "data@n4"), ("peer@n2", "data@n4"), ("begin@n2", "begin@n4")} <= found
    assert ("users@n1", "begin@n3") not in found


def test_a_node_of_two_groups_is_done_with_the_first_that_has_the_task() -> None:
    tasks = listing(
        group("controller"),
        group("compute", requires="controller"),
        task("netconfig", roles="controller compute"),
        task("nova", roles="compute", requires="netconfig"),
    )
    found = order(compile(tasks, nodes(n1="controller compute", n2="controller", n3="compute")))
    assert {("netconfig@n1", "netconfig@n3"), ("netconfig@n2", "nova@n1"), ("netconfig@n1", "nova@n3")} <= found
    assert ("netconfig@n2", "netconfig@n1") not in found


def test_a_circle_of_groups_is_refused() -> None:
    tasks = listing(group("a", requires="b"), group("b", requires="a"), task("work", roles="a"))
    with pytest.raises(Invalid) as refused:
        compile(tasks, nodes(n1="a"))
    assert str(refused.value).startswith("tasks wait for one another: a.start -> a.end -> b.start -> b.end -> a.start")


def test_no_vertex_has_too_many_parents_and_relations_take_n_plus_m_edges() -> None:
    tasks = listing(
        stage("all", requires="a b"),
        task("a", roles="*"),
        task("b", roles="*", cross_depends=[crossing("a")]),
        *(task(f"c{n}", roles="one", cross_depends=[crossing("b")]) for n in range(100)),
    )
    plan = compile(tasks, nodes(n0="one", **{f"n{n}": "" for n in range(1, 1_000)}))
    assert max(map(len, plan.parents)) == MOST_PARENTS
    assert sum(map(len, plan.parents)) < 6_000
    assert {plan.tasks[each] for each in plan.barriers}.isdisjoint(task.id for task in tasks.tasks)
    whole = graph(plan)
    assert whole.number_of_nodes() == len(plan), "two vertices of one name"
    assert on(plan, "a@n999", "b@n0")
    assert on(plan, "b@n999", "all")
    assert on(contracted(plan), "a@n500", "c99@n0")


def test_a_thousand_tasks_on_a_hundred_nodes_are_looked_at_a_few_times_each() -> None:
    """Counts what is looked at, so that it says the same on a busy machine."""
    roles = [f"r{number}" for number in range(5)]
    tasks = listing(
        *(group(role, requires=" ".join(roles[:at][-1:]), strategy=by(5)) for at, role in enumerate(roles)),
        *(
            task(
                f"t{n}",
                roles=roles[n % 5],
                requires=f"t{n - 5} t{n - 10}",
                cross_depends=[crossing(f"t{n - n % 5 - 1}")] if n % 100 == 99 else [],
            )
            for n in range(1_000)
        ),
    )
    plan = compile(tasks, nodes(**{f"n{n}": roles[n % 5] for n in range(100)}))
    assert len(plan) < 20_500
    assert sum(map(len, plan.parents)) < 2.2 * len(plan)


def test_nodes_that_a_list_does_not_tell_apart_are_worked_out_once() -> None:
    tasks = listing(group("web"), task("a", roles="web"), task("b", roles="/w.*/ db", requires="a"))
    members = nodes(**{f"n{n}": f"web rack{n} wheel{n % 2}" for n in range(100)}, n200="db")
    roles = {member.name: member.roles for member in members}
    placement = Placement(Relations(tasks, Selectors(tasks)), members, roles)
    assert sorted(len(shape.tasks) for shape in placement.shapes.values()) == [1, 2]
    assert sum(map(len, placement.nodes.values())) == 101
