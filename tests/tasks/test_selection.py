"""--tasks, --skip, --start and --end: what is run of a plan, and why the rest is not."""

from __future__ import annotations

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks.compiling import compile
from nodepool_ocb.tasks.plan import Member
from nodepool_ocb.tasks.selection import Selection
from nodepool_ocb.tasks.tasklist import TaskList
from tests.tasks.lists import ONE_BY_ONE, group, listing, nodes, order, stage, task, works

LIST = listing(
    stage("pre_deployment_start"),
    stage("pre_deployment_end", requires="pre_deployment_start"),
    task("sync", roles="*", requires="pre_deployment_start", required_for="pre_deployment_end"),
    group("web", requires="pre_deployment_end"),
    group("db", requires="pre_deployment_end", required_for="web"),
    task("hiera", roles="*", requires="pre_deployment_end"),
    task("netconfig", roles="*", requires="hiera"),
    task("galera", roles="db", requires="netconfig"),
    task("apache", roles="web", requires="netconfig"),
    task("idle", roles="nobody"),
)
NODES = nodes(n1="web", n2="web", n3="db", n10="db")


def chosen(**said: str) -> set[str]:
    """What of LIST runs."""
    plan = compile(LIST, NODES, selection=Selection(**{key: tuple(words.split()) for key, words in said.items()}))
    assert order(plan) == order(compile(LIST, NODES))
    gone = {plan.name(vertex) for vertex in plan.skipped}
    return {name.replace("@n", "/") for name in works(plan) if name not in gone}


def everywhere(*names: str) -> set[str]:
    return {f"{name}/{node}" for name in names for node in (1, 2, 3, 10)}


def test_nothing_selected_means_everything() -> None:
    assert chosen() == everywhere("sync", "hiera", "netconfig") | {"galera/3", "galera/10", "apache/1", "apache/2"}


def test_tasks_are_these_alone() -> None:
    assert chosen(tasks="hiera galera") == everywhere("hiera") | {"galera/3", "galera/10"}


def test_skipped_ones_are_left_out() -> None:
    assert chosen(skip="sync hiera/1,3-10 netconfig") == {"hiera/2", "galera/3", "galera/10", "apache/1", "apache/2"}


def test_start_is_it_and_what_follows() -> None:
    assert chosen(start="netconfig/3") == {"netconfig/3", "galera/3"}, "group web comes later, and needs nothing of it"


def test_end_is_it_and_what_is_before() -> None:
    assert chosen(end="hiera/10") == everywhere("sync") | {"hiera/10"}
    assert chosen(end="pre_deployment") == everywhere("sync")


def selected(tasks: TaskList, members: list[Member], **said: str) -> set[str]:
    """What of a list runs."""
    plan = compile(tasks, members, selection=Selection(**{key: tuple(words.split()) for key, words in said.items()}))
    return set(works(plan)) - {plan.name(vertex) for vertex in plan.skipped}


def test_the_order_of_groups_chunks_hooks_and_limits_selects_nothing() -> None:
    """Seed 002: ``--start netconfig --end galera``. What only runs earlier is not needed."""
    tasks = listing(
        stage("deploy_start"),
        stage("deploy_end", requires="deploy_start"),
        *(task(f"pre_{each}", roles="*", required_for="deploy_start") for each in "abc"),
        group("first", requires="deploy_start", strategy=ONE_BY_ONE),
        group("second", requires="first"),
        task("network", roles="first second", strategy=ONE_BY_ONE),
        task("services", roles="first second", requires="network", required_for="deploy_end"),
    )
    some = nodes(n1="first", n2="first", n3="second")
    hooks = {f"pre_{each}@n{node}" for each in "abc" for node in (1, 2, 3)}
    network, services = ({f"{name}@n{node}" for node in (1, 2, 3)} for name in ("network", "services"))
    assert selected(tasks, some, end="pre_c") == {f"pre_c@n{node}" for node in (1, 2, 3)}
    assert selected(tasks, some, start="pre_a/1") == {"pre_a@n1"} | (network | services) - {"network@n3", "services@n3"}
    assert selected(tasks, some, end="network/3") == {"network@n3"}, "group second requires a group alone"
    assert selected(tasks, some, end="network/2") == {"network@n2"} | hooks, "group first requires deploy_start"
    assert selected(tasks, some, start="services/1") == {"services@n1"}
    assert selected(tasks, some, start="network/1", end="deploy_end") == {"network@n1", "services@n1"}
    assert selected(tasks, some, start="network", end="services") == network | services


def test_a_group_that_a_task_or_a_stage_requires_is_needed_whole_with_the_groups_that_it_requires() -> None:
    tasks = listing(
        stage("begin"),
        stage("done", requires="second"),
        task("hook", roles="*", required_for="begin"),
        group("first", requires="begin"),
        group("second", requires="first"),
        task("early", roles="/none/ other", required_for="second"),
        task("work", roles="first second"),
        task("report", roles="first", requires="second"),
    )
    some = nodes(n1="first", n2="second", n3="other")
    whole = {"hook@n1", "hook@n2", "hook@n3", "early@n3", "work@n1", "work@n2"}
    assert selected(tasks, some, end="report") == whole | {"report@n1"}
    assert selected(tasks, some, end="done") == selected(tasks, some, end="second") == whole
    assert selected(tasks, some, start="early") == {"early@n3", "work@n2", "report@n1"}
    assert selected(tasks, some, end="work/2") == {"early@n3", "work@n2"}
    assert selected(tasks, some, start="begin") == {"work@n1", "report@n1"}
    assert selected(tasks, some, start="work/1") == {"work@n1", "report@n1"}
    assert selected(tasks, some, start="second") == {"work@n2", "report@n1"}
    assert selected(tasks, some, start="first") == {"work@n1", "work@n2", "report@n1"}, "the second requires it"
    assert selected(tasks, some, start="first", end="second") == {"work@n1", "work@n2"}


def test_start_and_end_are_what_is_between() -> None:
    assert chosen(start="netconfig", end="galera") == {"netconfig/3", "netconfig/10", "galera/3", "galera/10"}
    assert chosen(start="sync", end="hiera/3,n10") == everywhere("sync") | {"hiera/3", "hiera/10"}


def test_all_of_them_together_narrow() -> None:
    assert chosen(start="hiera", end="galera", tasks="hiera galera", skip="hiera/3") == {
        "hiera/10",
        "galera/3",
        "galera/10",
    }


def test_a_group_stands_for_all_that_is_in_it() -> None:
    db = {f"{name}/{node}" for name in ("hiera", "netconfig", "galera") for node in (3, 10)}
    assert chosen(tasks="db") == db
    assert chosen(tasks="db/3") == {name for name in db if name.endswith("/3")}
    assert chosen(end="db") == everywhere("sync") | db
    assert chosen(start="web") == chosen(start="web/1-2")


def test_what_is_not_selected_says_why_and_barriers_do_not() -> None:
    plan = compile(LIST, NODES, selection=Selection(start=("netconfig",), end=("galera",), skip=("galera/3",)))
    whys = {plan.name(vertex): why for vertex, why in plan.skipped.items()}
    assert whys["hiera@n3"] == "not selected: not between netconfig and galera"
    assert whys["galera@n3"] == "not selected: skipped by name"
    assert not {"web.start", "web.end", "db.end"} & set(whys)
    plan = compile(LIST, NODES, selection=Selection(end=("galera",)))
    assert "not selected: not galera or before it" in plan.skipped.values()
    plan = compile(LIST, NODES, selection=Selection(start=("galera",)))
    assert "not selected: not galera or after it" in plan.skipped.values()
    plan = compile(LIST, NODES, selection=Selection(tasks=("galera", "sync")))
    assert set(plan.skipped.values()) == {"not selected: not galera, sync"}


def test_unselected_tasks_are_not_judged() -> None:
    judged: list[str] = []
    compile(LIST, NODES, selection=Selection(tasks=("galera",)), judge=lambda task, _: judged.append(task.id))
    assert set(judged) == {"galera"}


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("netconfg", "netconfg: no task is called netconfg; did you mean `netconfig`?"),
        ("wb/1", "wb/1: no task is called wb; did you mean `web`?"),
        ("netconfig/4", "netconfig/4: no node of this run is called 4; there are: n1, n2, n3 and 1 more"),
        ("netconfig/1-4", "netconfig/1-4: no node of this run has the uid 4; ranges begin and end with uids of nodes"),
        ("netconfig/3-1", "netconfig/3-1: the range 3-1 runs backwards; write 1-3"),
        ("netconfig/", "netconfig/: no node of this run is called nothing; there are: n1, n2, n3 and 1 more"),
        ("galera/1", "galera/1: galera does not run on n1; leave that node out"),
        (
            "galera/1-3",
            "galera/1-3: galera does not run on n1; leave that node out\n"
            "galera/1-3: galera does not run on n2; leave that node out",
        ),
        ("idle", "idle: idle runs on no node of this run; leave it out"),
    ],
)
@pytest.mark.parametrize("field", ["tasks", "skip", "start", "end"])
def test_a_name_that_means_nothing_is_refused(field: str, said: str, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        compile(LIST, NODES, selection=Selection(**{field: (said, "sync")}))
    assert str(refused.value) == sentence
