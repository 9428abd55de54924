"""From a list, nodes and settings to a judged plan and to what each node is given: the one way, as commands go it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml
from msgspec.structs import replace

from nodepool_ocb.bounded.yaql import Yaql
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Node
from nodepool_ocb.tasks.compiling import compile
from nodepool_ocb.tasks.conditions import Judge, NodeFacts, computed
from nodepool_ocb.tasks.facts import ClusterStatus, remembered
from nodepool_ocb.tasks.plan import Member, TaskPlan
from nodepool_ocb.tasks.run_inputs import COMMON, RunInputs
from nodepool_ocb.tasks.tasklist import Expression, Language, Task, TaskKind, TaskList

NODES = {f"n{number}.example.com": Node(addresses=(f"10.0.0.{number}",)) for number in (1, 2, 3)}
MEMBERS = tuple(
    Member(name=name, uid=str(number), roles=("controller",) if number < 3 else ("compute",))
    for number, name in enumerate(NODES, 1)
)
SETTINGS = {"plugins": ["a"], "horizon": False, "deployment_id": 7}
TASKS = TaskList(
    (
        Task(
            id="first",
            kind=TaskKind.SHELL,
            roles=("primary-controller",),
            parameters={"cmd": "init {CLUSTER_ID} {uid}"},
        ),
        Task(
            id="write",
            kind=TaskKind.UPLOAD_FILE,
            roles=("*",),
            requires=("first",),
            parameters={"path": "/roles", "data": {"yaql_exp": "$.roles.toYaml()"}},
        ),
        Task(
            id="plugins",
            kind=TaskKind.SHELL,
            roles=("*",),
            requires=("write",),
            condition=Expression(Language.YAQL, "changed($.plugins)"),
            parameters={"cmd": "plug"},
        ),
        Task(
            id="horizon",
            kind=TaskKind.SHELL,
            roles=("/(primary-)?controller/",),
            condition=Expression(Language.SETTINGS, "settings:horizon == true"),
            parameters={"cmd": "horizon"},
        ),
        Task(
            id="alone",
            kind=TaskKind.SHELL,
            roles=("compute",),
            condition=Expression(Language.API, "api.role_in_deployment('controller')"),
            parameters={"cmd": "alone"},
        ),
    )
)


@pytest.fixture(scope="module")
def yaql() -> Iterator[Yaql]:
    with Yaql() as evaluator:
        yield evaluator


def planned(yaql: Yaql, old: NodeFacts | None = None) -> tuple[RunInputs, TaskPlan]:
    inputs = RunInputs("lab", TASKS, SETTINGS, MEMBERS, NODES)
    sources = inputs.sources(ClusterStatus.NEW, MEMBERS, evaluator=yaql, old_facts_of=lambda _task, _member: old)
    judge = Judge(inputs.tasks, sources)
    plan = compile(inputs.tasks, MEMBERS, MEMBERS, judge=judge, amount_of=judge.amount)
    plan = computed(plan, judge, inputs.tasks, MEMBERS)
    judge.check()
    return inputs, plan


def skipped(plan: TaskPlan) -> dict[str, str]:
    return {plan.name(vertex): why for vertex, why in plan.skipped.items()}


def test_each_node_is_given_its_facts_its_list_and_its_computed_parameters(yaql: Yaql) -> None:
    inputs, plan = planned(yaql)
    given = inputs.attributes(plan)
    assert set(given) == {COMMON, *NODES}
    first = given["n1.example.com"]
    assert first["astute"]["roles"] == ["primary-controller"]
    assert [(each["id"], each["priority"]) for each in first["astute"]["tasks"]] == [
        ("first", 100),
        ("write", 200),
        ("plugins", 300),
    ]
    assert yaml.safe_load(first["parameters"]["write"]["data"]) == ["primary-controller"]
    assert yaml.safe_load(given["n3.example.com"]["parameters"]["write"]["data"]) == ["compute"]
    assert given[COMMON]["astute"]["plugins"] == ["a"]
    assert "plugins" not in first["astute"], "what all nodes have is stored once"


def test_what_is_the_same_everywhere_is_put_into_the_texts_of_the_list(yaql: Yaql) -> None:
    inputs, plan = planned(yaql)
    assert inputs.tasks.by_id["first"].parameters == {"cmd": "init 7 {uid}"}
    own = inputs.attributes(plan)["n1.example.com"]["astute"]["tasks"][0]
    assert own["parameters"]["cmd"] == "init 7 {uid}"
    assert own["parameters"]["timeout"] == 300


def test_conditions_of_all_three_languages_are_judged(yaql: Yaql) -> None:
    _, plan = planned(yaql)
    assert {name.partition("@")[0] for name in skipped(plan)} == {"horizon"}
    assert all("settings:horizon is false" in why for why in skipped(plan).values())


def test_a_primary_counts_as_what_it_was_elected_from() -> None:
    inputs = RunInputs("lab", TASKS, SETTINGS, MEMBERS[1:], NODES)
    assert [member.roles for member in inputs.members] == [("primary-controller",), ("compute",)]
    models = inputs.sources(ClusterStatus.NEW, MEMBERS[1:2]).models
    assert models.roles_of_run == {"controller", "primary-controller"}
    assert models.roles_of_cluster == {"controller", "primary-controller", "compute"}
    assert models.nodes_count == 1


def test_what_was_stored_of_a_run_before_is_what_the_next_one_compares_with(yaql: Yaql) -> None:
    inputs, plan = planned(yaql)
    given = inputs.attributes(plan)
    old = remembered(given[COMMON]["astute"], given["n1.example.com"]["astute"])
    again = planned(yaql, old)[1]
    assert {name.partition("@")[0] for name in skipped(again)} == {"horizon", "plugins"}


def test_facts_with_computed_parameters_that_are_too_large_are_refused(yaql: Yaql) -> None:
    inputs, plan = planned(yaql)
    write = next(vertex for vertex in range(len(plan)) if plan.name(vertex) == "write@n2.example.com")
    large = {write: {"data": "x" * 500_000}}
    plan = replace(plan, parameters=large)
    with pytest.raises(Invalid, match=r"the facts of n2.example.com with its computed parameters take 48"):
        inputs.attributes(plan)
