"""A judge: whether a task runs on a node and why not, computed parameters, amounts, faults all together, each expression once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nodepool_ocb.bounded.yaql import Yaql
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.compiling import compile
from nodepool_ocb.tasks.conditions import ConditionInputs, Judge, Models, NodeFacts, computed
from nodepool_ocb.tasks.plan import Member, TaskPlan
from nodepool_ocb.tasks.tasklist import Expression, Language, StrategyType, Task, TaskKind, TaskList, TaskStrategy
from tests.tasks.lists import nodes, order

MODELS = Models(settings={"ceph": True, "horizon": False}, cluster={"status": "new"}, nodes_count=3)
NODES = tuple(Member(name=f"n{number}.example.com", uid=str(number), roles=("compute",)) for number in range(1, 4))
COMMON = {"plugins": ["a"], "secret": "x" * 1000}


@pytest.fixture(scope="module")
def yaql() -> Iterator[Yaql]:
    with Yaql() as evaluator:
        yield evaluator


def facts_of(member: Member | None) -> NodeFacts:
    return NodeFacts(common=COMMON, node={"uid": member.uid, "roles": list(member.roles)} if member else {})


def task(name: str, condition: str | bool = True, language: Language = Language.SETTINGS, **others: Json) -> Task:
    expression = condition if isinstance(condition, bool) else Expression(language, condition)
    return Task(id=name, kind=TaskKind.SHELL, condition=expression, place=f"tasks.yaml:{len(name)}", **others)


def judge(*tasks: Task, yaql: Yaql | None = None, old: NodeFacts | None = None, force: bool = False) -> Judge:
    sources = ConditionInputs(MODELS, facts_of, lambda _task, _member: old, yaql)
    return Judge(TaskList(tasks), sources, force=force)


def test_a_task_runs_or_says_why_it_is_skipped() -> None:
    runs, never, skipped = task("a"), task("b", False), task("c", "settings:horizon == true")
    asked = judge(runs, never, skipped)
    assert asked(runs, NODES[0]) is None
    assert asked(never, NODES[0]) == "its condition is false"
    assert asked(skipped, NODES[0]) == (
        "its condition is false: settings:horizon == true, where settings:horizon is false"
    )
    assert asked(task("c2", "settings:ceph"), None) is None


def test_a_setting_that_is_not_there_is_null_for_a_condition_that_is_not_strict_and_is_named() -> None:
    loose = [
        Task(id=name, kind=TaskKind.SHELL, condition=Expression(Language.SETTINGS, text, strict=False))
        for name, text in (
            ("a", "settings:aodh.enabled"),
            ("b", "not settings:x.y"),
            ("c", "settings:odd?"),
            ("d", "settings:ceph"),
        )
    ]
    asked = judge(*loose)
    assert [asked(each, NODES[0]) is None for each in loose] == [False, True, False, True]
    asked.check()
    assert list(asked.missing) == ["settings:aodh.enabled", "settings:x.y"]
    strict = judge(task("a", "settings:aodh.enabled"))
    assert strict(task("a", "settings:aodh.enabled"), NODES[0]) is None
    with pytest.raises(Invalid, match="leads nowhere"):
        strict.check()


def test_an_expression_over_the_models_is_evaluated_once_for_all_tasks_and_nodes() -> None:
    tasks = [task(f"t{number}", "settings:ceph == true") for number in range(50)]
    tasks += [task(f"u{number}", "api.nodes_count() > 2", Language.API) for number in range(50)]
    asked = judge(*tasks)
    assert not any(asked(each, node) for each in tasks for node in NODES)
    assert asked.evaluated == 2


def test_an_expression_of_yaql_is_evaluated_once_for_all_nodes_whose_facts_it_reads_are_the_same(yaql: Yaql) -> None:
    of_all, of_one = task("a", "len($.plugins) > 0", Language.YAQL), task("b", "$.uid != '2'", Language.YAQL)
    lambdas = task("c", "$.plugins.any($ = 'a')", Language.YAQL)
    whole = task("d", "len($.toJson()) > 0", Language.YAQL)
    asked = judge(of_all, of_one, lambdas, whole, yaql=yaql)
    before = yaql.evaluated
    for _ in range(3):
        assert [asked(of_all, node) is None for node in NODES] == [True, True, True]
        assert [asked(of_one, node) is None for node in NODES] == [True, False, True]
        assert [asked(lambdas, node) is None for node in NODES] == [True, True, True]
        assert [asked(whole, node) is None for node in NODES] == [True, True, True]
    assert asked.evaluated == yaql.evaluated - before == 1 + 3 + 1 + 3


def test_why_yaql_is_false_shows_what_it_read_and_of_what_is_large_only_its_size(yaql: Yaql) -> None:
    plugins = task("a", "len($.plugins) > 3 and $.uid = 'x'", Language.YAQL)
    assert judge(plugins, yaql=yaql)(plugins, NODES[0]) == (
        "its condition is false: len($.plugins) > 3 and $.uid = 'x', where $.plugins is \"a list of 1\""
    )
    changed = task("b", "changed($.uid)", Language.YAQL)
    assert judge(changed, yaql=yaql, old=facts_of(NODES[0]))(changed, NODES[0]) == (
        'its condition is false: changed($.uid), where $.uid is "1" and $%old.uid is "1"'
    )


def test_what_is_old_counts_unless_the_run_is_forced(yaql: Yaql) -> None:
    changed = task("a", "changed($.plugins)", Language.YAQL)
    old = NodeFacts(common=COMMON)
    assert judge(changed, yaql=yaql)(changed, NODES[0]) is None, "nothing ran before"
    assert judge(changed, yaql=yaql, old=old)(changed, NODES[0]) is not None
    assert judge(changed, yaql=yaql, old=old, force=True)(changed, NODES[0]) is None


def test_expressions_that_cannot_be_read_are_refused_at_once_and_together() -> None:
    with pytest.raises(Invalid) as caught:
        judge(
            task("a", "settings:x ="),
            task("bb", "api.nodes()", Language.API),
            task("ccc", parameters={"data": [{"deep": {"yaql_exp": "wher($)"}}]}),
            task("dddd", strategy=TaskStrategy(StrategyType.PARALLEL, Expression(Language.YAQL, "len("))),
        )
    first, second, third, fourth = caught.value.problems
    assert first.startswith("tasks.yaml:1: a: condition: at character 12: ")
    assert second.startswith("tasks.yaml:2: bb: condition: at character 5: `nodes` is not known")
    assert third.startswith("tasks.yaml:3: ccc: parameters: there is no function `wher`; did you mean `where`?")
    assert fourth.startswith("tasks.yaml:4: dddd: strategy.amount: at character 5: a value was expected")


def test_expressions_that_fail_on_their_facts_are_told_together_each_once_with_a_node(yaql: Yaql) -> None:
    tasks = (
        task("a", "settings:cehp == true"),
        task("bb", "$.plugin", Language.YAQL),
        task("ccc", "$.plugins", Language.YAQL),
    )
    asked = judge(*tasks, yaql=yaql)
    assert [asked(each, node) for each in tasks for node in NODES] == [None] * 9
    with pytest.raises(Invalid) as caught:
        asked.check()
    first, second = caught.value.problems
    assert first.startswith("tasks.yaml:1: a: condition: settings:cehp leads nowhere")
    assert "did you mean `ceph`" in first
    assert second.startswith("tasks.yaml:2: bb: condition: there is no 'plugin' in the facts")
    assert second.endswith("(on n1.example.com)")


def test_a_hostile_expression_is_tried_on_one_node_alone(yaql: Yaql) -> None:
    endless = task("a", "sequence().len()", Language.YAQL)
    asked = judge(endless, yaql=yaql)
    assert [asked(endless, node) for node in NODES] == [None] * 3
    assert asked.evaluated == 1
    with pytest.raises(Invalid, match="more CPU time than allowed"):
        asked.check()


def test_parameters_are_computed_for_each_node_wherever_an_expression_stands_in_them(yaql: Yaql) -> None:
    computed = task(
        "a",
        parameters={
            "data": {"yaql_exp": "$.plugins.toYaml()"},
            "files": [{"dst": "/a", "data": {"yaql_exp": "$.uid"}}],
            "cmd": "true",
            "odd": {"yaql_exp": "$.uid", "other": 1},
        },
    )
    plain = task("b", parameters={"cmd": "true"})
    asked = judge(computed, plain, yaql=yaql)
    assert asked.parameters(plain, NODES[0]) == {}
    assert asked.parameters(computed, NODES[1]) == {"data": '- "a"\n', "files": [{"dst": "/a", "data": "2"}]}
    asked.check()


def test_a_plan_gets_the_computed_parameters_of_what_runs(yaql: Yaql) -> None:
    tasks = (task("a", parameters={"cmd": "x", "data": {"yaql_exp": "$.uid"}}), task("b", parameters={"cmd": "y"}))
    plan = TaskPlan(
        nodes=("n1.example.com", "n2.example.com", ""),
        tasks=("a", "b"),
        task_of=[0, 0, 1],
        node_of=[0, 1, 0],
        parents=[[], [], [0]],
        rank=[1, 0, 0],
        skipped={1: "not selected"},
        parameters={0: {"timeout": 5}},
    )
    asked = judge(*tasks, yaql=yaql)
    done = computed(plan, asked, TaskList(tasks), NODES)
    assert done.parameters == {0: {"timeout": 5, "data": "1"}}
    assert asked.evaluated == 1, "nothing is computed for what does not run"


def test_the_amount_of_a_strategy_may_be_computed(yaql: Yaql) -> None:
    amounts = [Expression(Language.YAQL, text) for text in ("1 + len($.plugins)", "'7'", "0", "$.plugins")]
    tasks = [
        task(f"t{number}", strategy=TaskStrategy(StrategyType.PARALLEL, amount))
        for number, amount in enumerate(amounts)
    ]
    asked = judge(*tasks, yaql=yaql)
    assert [asked.amount(each, amount) for each, amount in zip(tasks, amounts, strict=True)] == [2, 7, 1, 1]
    with pytest.raises(Invalid) as caught:
        asked.check()
    assert ["a whole number above 0 is needed" in problem for problem in caught.value.problems] == [True, True]


def test_computed_relations_are_evaluated_on_each_node_for_itself(yaql: Yaql) -> None:
    """As release 9.2 has them: netconfig of some nodes waits for a task of others, and a task for its neighbour here."""
    far = "switch(('db' in $node.roles) => [], true => [{name => 'vips', role => ['db']}])"
    here = "[{name => 'net', role => 'self'}]"
    tasks = TaskList(
        (
            Task(id="vips", kind=TaskKind.SHELL, roles=("db",), version=(2, 0, 0)),
            Task(
                id="net", kind=TaskKind.SHELL, roles=("db", "web"), computed_depends=(Expression(Language.YAQL, far),)
            ),
            Task(
                id="early", kind=TaskKind.SHELL, roles=("web",), computed_depended_by=(Expression(Language.YAQL, here),)
            ),
        )
    )
    members = nodes(n1="db", n2="web", n3="web")
    asked = Judge(tasks, ConditionInputs(MODELS, facts_of, evaluator=yaql))
    found = order(compile(tasks, members, relations_of=asked.relations))
    asked.check()
    assert found == {
        ("vips@n1", "net@n2"), ("vips@n1", "net@n3"), ("early@n2", "net@n2"), ("early@n3", "net@n3"),
    }  # fmt: skip
    assert not order(compile(tasks, members)), "nothing evaluates them"


def test_computed_relations_that_are_none_are_a_fault_of_the_plan(yaql: Yaql) -> None:
    odd = Task(id="a", kind=TaskKind.SHELL, roles=("web",), computed_depends=(Expression(Language.YAQL, "[1]"),))
    asked = Judge(TaskList((odd,)), ConditionInputs(MODELS, facts_of, evaluator=yaql))
    compile(TaskList((odd,)), nodes(n1="web"), relations_of=asked.relations)
    with pytest.raises(Invalid, match="a list of relations is needed"):
        asked.check()
