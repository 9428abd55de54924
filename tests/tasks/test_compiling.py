"""Which task runs on which node, and after what."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks.compiling import compile
from nodepool_ocb.tasks.plan import Member
from nodepool_ocb.tasks.tasklist import Policy
from tests.tasks.lists import (
    AT_ONCE,
    ONE_BY_ONE,
    by,
    crossing,
    group,
    listing,
    names,
    nodes,
    on,
    order,
    stage,
    task,
    waves,
    works,
)

EVERYWHERE = "controller primary-controller compute network cinder"
SEED = listing(
    stage("deploy"),
    group("primary-controller", required_for="deploy", strategy=ONE_BY_ONE),
    group("controller", requires="primary-controller", required_for="deploy", strategy=by(2)),
    group("cinder", requires="controller", required_for="deploy", strategy=AT_ONCE),
    group("compute", requires="controller", required_for="deploy", strategy=AT_ONCE),
    group("network", requires="controller", required_for="compute deploy", strategy=AT_ONCE),
    task("setup_services", roles=EVERYWHERE, requires="setup_network", required_for="deploy"),
    task("setup_network", roles=EVERYWHERE, required_for="deploy"),
)
EIGHT = nodes(
    n1="primary-controller", n4="controller", n2="controller", n3="controller", n5="controller",
    n6="cinder", n7="network", n8="compute",
)  # fmt: skip


def test_the_seeds_example_runs_in_the_seeds_order() -> None:
    assert names(waves(compile(SEED, EIGHT))) == [
        "setup_network@n1",
        "setup_services@n1",
        "setup_network@n2 setup_network@n4",
        "setup_services@n2 setup_services@n4",
        "setup_network@n3 setup_network@n5",
        "setup_services@n3 setup_services@n5",
        "setup_network@n6 setup_network@n7",
        "setup_services@n6 setup_services@n7",
        "setup_network@n8",
        "setup_services@n8",
    ]


def test_independent_groups_do_not_wait_for_one_another() -> None:
    plan = compile(SEED, EIGHT)
    assert not on(plan, "setup_network@n6", "setup_services@n8")
    assert not on(plan, "setup_network@n6", "setup_services@n7")
    assert on(plan, "setup_services@n7", "setup_network@n8")


@pytest.mark.parametrize(
    ("early", "fields"),
    [
        ({"roles": ["/ctl-.*/"]}, {"roles": "ctl-a"}),
        ({"roles": ["/ctl-.*/"]}, {"roles": ["/ctl-(a|b)/"]}),
        ({"roles": ["/ctl-.*/"]}, {"roles": ["/ctl-.*/"]}),
        ({"roles": "ctl-a", "tasks": ["/net.*/"]}, {"roles": "nobody"}),
    ],
)
def test_a_task_is_of_a_group_by_patterns_as_by_names(early: Any, fields: Any) -> None:
    tasks = listing(
        group("early", **early), group("late", roles="compute", requires="early"),
        task("network", **fields), task("service", roles="compute"),
    )  # fmt: skip
    plan = compile(tasks, nodes(n1="ctl-a", n2="compute"))
    assert order(plan) == {("network@n1", "service@n2")}


def test_a_task_of_another_role_of_a_node_is_not_of_a_group_of_patterns() -> None:
    tasks = listing(
        group("early", roles=["/ctl-.*/"]), group("late", roles="compute", requires="early"),
        task("network", roles=["/web-.*/"]), task("site", roles="web-a"), task("service", roles="compute"),
    )  # fmt: skip
    assert order(compile(tasks, nodes(n1="ctl-a web-a", n2="compute"))) == set()


def test_a_group_of_nobody_still_stands_between_others() -> None:
    plan = compile(SEED, [node for node in EIGHT if node.roles != ("controller",)])
    assert on(plan, "setup_services@n1", "setup_network@n8")


def test_meanings_of_selectors() -> None:
    tasks = listing(
        group("storage", roles="ceph cinder", tasks="named named_alone"),
        task("by_role", roles="ceph"),
        task("by_group", roles="storage"),
        task("by_pattern", roles="/c.*/"),
        task("everywhere", roles="*"),
        task("on_the_admin_node", roles="master"),
        task("named", roles="nobody"),
        task("compute"),
        task("named_alone"),
    )
    plan = compile(tasks, nodes(n1="ceph", n2="cinder", n3="compute named_alone", admin="ceph"))
    assert set(works(plan)) == {
        "by_role@n1", "by_role@admin", "by_group@n1", "by_group@n2", "by_group@admin", "by_pattern@n1", "by_pattern@n2",
        "by_pattern@n3", "everywhere@n1", "everywhere@n2", "everywhere@n3", "on_the_admin_node@admin", "named@n1",
        "named@n2", "named@admin", "compute@n3", "named_alone@n1", "named_alone@n2", "named_alone@admin",
    }  # fmt: skip


def test_a_primary_is_elected_once_where_the_list_names_one() -> None:
    tasks = listing(task("first", roles="primary-web"), task("rest", roles="web"), task("db", roles="db"))
    plan = compile(tasks, nodes(n10="web", n9="web", n3="db"))
    assert set(works(plan)) == {"first@n9", "rest@n10", "db@n3"}
    assert plan.roles == {"n10": ("web",), "n9": ("primary-web",), "n3": ("db",)}


def test_a_primary_is_elected_among_all_nodes_of_the_deployment() -> None:
    tasks = listing(task("first", roles="primary-web"), task("rest", roles="web"))
    cluster = nodes(n1="web", n2="web")
    assert works(compile(tasks, cluster[1:], cluster)) == ["rest@n2"]


def test_the_name_of_a_group_elects_nobody() -> None:
    """Seed 002's list has the role ``primar-controller`` in the group primary-controller: node-1 stays a controller."""
    tasks = listing(
        group("primary-web", roles="primar-web"),
        group("web"),
        task("site", roles="primary-web web"),
        task("db", roles="db"),
    )
    assert compile(tasks, nodes(n1="web", n2="web")).roles == {"n1": ("web",), "n2": ("web",)}


def test_no_primary_is_elected_beside_one_that_is_there() -> None:
    tasks = listing(task("first", roles="primary-web"), task("rest", roles="web"))
    assert set(works(compile(tasks, nodes(n1="web", n2="primary-web")))) == {"rest@n1", "first@n2"}


def test_requires_and_required_for_order_what_is_on_one_node() -> None:
    tasks = listing(
        task("late", roles="*", requires="early"),
        task("early", roles="web"),
        task("first", roles="*", required_for="early"),
        group("web"),  # of a list without groups, other nodes would count
    )
    plan = compile(tasks, nodes(n1="web", n2="db"))
    assert order(plan) == {("first@n1", "early@n1"), ("early@n1", "late@n1"), ("first@n1", "late@n1")}


def test_a_stage_is_after_all_before_it_on_every_node() -> None:
    tasks = listing(
        task("one", roles="*", required_for="between"),
        stage("between"),
        stage("end", requires="/betw.*/"),
        task("two", roles="*", requires="end"),
        task("two_more", roles="*", requires="two end"),
    )
    plan = compile(tasks, nodes(n1="", n2=""))
    assert on(plan, "one@n1", "two@n2")
    assert on(plan, "one@n2", "two_more@n1")
    assert not on(plan, "two@n1", "two_more@n2")


def test_tasks_before_and_after_a_group_are_before_and_after_all_its_nodes() -> None:
    tasks = listing(
        group("web"),
        task("work", roles="web"),
        task("prepare", roles="*", required_for="web"),
        task("look", roles="web", requires="web"),
    )
    assert names(waves(compile(tasks, nodes(n1="web", n2="web", n3="db")))) == [
        "prepare@n1 prepare@n2 prepare@n3",
        "work@n1 work@n2",
        "look@n1 look@n2",
    ]


def test_relations_between_nodes_mean_all_instances_on_the_nodes_they_name() -> None:
    tasks = listing(
        task("db", roles="db"),
        task("cache", roles="*"),
        task("web", roles="web", cross_depends=[crossing("/d./"), crossing("cache", "db", "/qu.*/")]),
    )
    plan = compile(tasks, nodes(n1="web", n2="web", n3="db", n4="db", n5="queue"))
    assert order(plan) == {
        (before, after)
        for before in ("db@n3", "db@n4", "cache@n3", "cache@n4", "cache@n5")
        for after in ("web@n1", "web@n2")
    }


def test_cross_depended_by_is_the_same_from_the_other_side() -> None:
    tasks = listing(task("db", roles="db", cross_depended_by=[crossing("web", "blue")]), task("web", roles="web"))
    plan = compile(tasks, nodes(n1="web blue", n2="web", n3="db"))
    assert order(plan) == {("db@n3", "web@n1")}


def test_self_means_this_node() -> None:
    tasks = listing(task("a", roles="*", cross_depends=[crossing("b", "self")]), task("b", roles="*"))
    plan = compile(tasks, nodes(n1="", n2=""))
    assert order(plan) == {("b@n1", "a@n1"), ("b@n2", "a@n2")}


def test_no_role_means_a_stage() -> None:
    tasks = listing(
        stage("ready"),
        task("a", roles="*", required_for="ready"),
        task("b", roles="*", cross_depends=[crossing("ready").__class__("ready", None)]),
    )
    assert on(compile(tasks, nodes(n1="", n2="")), "a@n1", "b@n2")


def test_any_means_one_of_those_that_have_the_task_and_the_same_each_time() -> None:
    tasks = listing(
        task("db", roles="db"),
        task("web", roles="web", cross_depends=[crossing("db", policy=Policy.ANY)]),
    )
    members = nodes(**{f"n{n}": "web" for n in range(30)}, d1="db", d2="db", d3="db", x1="")
    first = order(compile(tasks, members))
    assert len(first) == 30
    assert {before for before, _ in first} == {"db@d1", "db@d2", "db@d3"}
    assert order(compile(tasks, members[::-1])) == first
    without = order(compile(tasks, [node for node in members if node.name != "d2"]))
    assert {pair for pair in first if pair[0] != "db@d2"} < without


def test_a_task_that_names_itself_does_not_wait_for_its_own_instance() -> None:
    tasks = listing(task("a", roles="web first", cross_depends=[crossing("a", "first")]))
    plan = compile(tasks, nodes(n1="first", n2="web", n3="web"))
    assert order(plan) == {("a@n1", "a@n2"), ("a@n1", "a@n3")}


def test_relations_to_what_runs_nowhere_are_none() -> None:
    tasks = listing(
        task("a", roles="web", requires="b unheard", cross_depends=[crossing("b"), crossing("a", "db")]),
        task("b", roles="db"),
    )
    assert order(compile(tasks, nodes(n1="web", n2="web"))) == set()


def test_a_task_of_the_admin_node_stands_in_the_order_of_the_nodes_it_is_for() -> None:
    tasks = listing(
        group("web"),  # no old list
        task("before", roles="*"),
        task("keys", "master_shell", roles="web", requires="before"),
        task("after", roles="*", requires="keys before"),
    )
    plan = compile(tasks, nodes(n1="web", n2="web", n3="db", admin=""))
    assert works(plan).count("keys@admin") == 1
    assert {pair for pair in order(plan) if pair[0] == "keys@admin"} == {
        ("keys@admin", "after@n1"),
        ("keys@admin", "after@n2"),
    }
    assert {pair for pair in order(plan) if pair[1] == "keys@admin"} == {
        ("before@n1", "keys@admin"),
        ("before@n2", "keys@admin"),
    }
    assert on(compile(tasks, nodes(n1="web")), "before@n1", "after@n1")  # though no admin node takes part


def test_what_is_judged_away_keeps_its_place() -> None:
    tasks = listing(
        task("a", roles="*"), task("b", "skipped", roles="*", requires="a"), task("c", roles="*", requires="b")
    )

    def judge(task: object, member: Member | None) -> str | None:
        return "no" if member and member.name == "n2" and getattr(task, "id", "") == "a" else None

    plan = compile(tasks, nodes(n1="", n2=""), judge=judge, done=[("c", "n1")])
    assert {plan.name(vertex): why for vertex, why in plan.skipped.items()} == {
        "b@n1": "its type is skipped",
        "b@n2": "its type is skipped",
        "a@n2": "no",
        "c@n1": "it is done",
    }
    assert on(plan, "a@n2", "c@n2")


def test_a_circle_is_refused_with_one_shortest_way_and_its_places() -> None:
    tasks = listing(
        task("a", roles="*", requires="c"),
        task("b", roles="*", requires="a"),
        task("c", roles="*", requires="b"),
        task("d", roles="*", requires="c e"),
        task("e", roles="*", requires="d"),
    )
    with pytest.raises(Invalid) as refused:
        compile(tasks, nodes(n1=""))
    assert str(refused.value) == (
        "tasks wait for one another: d@n1 (tasks.yaml:d) -> e@n1 (tasks.yaml:e) -> d@n1 (tasks.yaml:d); "
        "take one of these relations away"
    )
