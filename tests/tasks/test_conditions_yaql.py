"""YAQL in conditions: its variables, its functions beside the standard ones, what it reads, and slips that are told early."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from nodepool_ocb.bounded.yaql import Yaql
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.conditions import NodeFacts, parse
from nodepool_ocb.tasks.conditions.yaql.evaluation import Evaluation, Members, YaqlQuery
from nodepool_ocb.tasks.tasklist import Expression, Language

NEW = NodeFacts(
    common={"plugins": ["a", "b"], "storage": {"ceph": True, "size": 3}}, node={"uid": "1", "roles": ["compute"]}
)
OLD = NodeFacts(common={"plugins": ["b", "c"], "storage": {"ceph": True}}, node={"uid": "1"})


@pytest.fixture(scope="module")
def yaql() -> Iterator[Yaql]:
    with Yaql() as evaluator:
        yield evaluator


def answer(yaql: Yaql, text: str, old: NodeFacts = OLD) -> Evaluation:
    parse(Expression(Language.YAQL, text))
    return yaql(YaqlQuery(text, NEW, old))


def value(yaql: Yaql, text: str, old: NodeFacts = OLD) -> Json:
    found = answer(yaql, text, old)
    assert found.fault is None
    return found.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$.storage.ceph and $.uid = '1'", True),
        ("$%new.plugins", ["a", "b"]),
        ("$%old.plugins", ["b", "c"]),
        ("$node.roles", ["compute"]),
        ("$common.storage.size", 3),
        ("new($.storage.size) + 1", 4),
        ("old($.plugins)", ["b", "c"]),
        ("changed($.plugins)", True),
        ("changed($.storage.ceph)", False),
        ("changed($.storage)", True),
        ("changed($.storage.size)", True),  # which the old facts do not have
        ("changed()", True),
        ("changedAny($.storage.ceph, $.plugins)", True),
        ("changedAny($.storage.ceph, $.uid)", False),
        ("changedAll($.storage.ceph, $.plugins)", False),
        ("changedAll($.storage, $.plugins)", True),
        ("added($.plugins)", ["a"]),
        ("deleted($.plugins)", ["c"]),
        ("added($.storage)", {"size": 3}),
        ("deleted($.storage)", {}),
        ("added($.roles)", ["compute"]),  # nothing was there
        ("deleted($.roles)", None),
        ("isUndef(old($.roles))", True),
        ("old($.roles).isUndef()", True),
        ("old($.uid).isUndef()", False),
        ("old($.roles)", None),
        ("$.storage.toJson()", '{"ceph":true,"size":3}'),
        ("$.storage.toYaml()", "ceph: true\nsize: 3\n"),
        ("toYaml(new($.plugins))", '- "a"\n- "b"\n'),
        ("changed($.plugins) and (len($.plugins) > 0)", True),
        ("$.plugins.where($ > 'a').select($.toUpper())", ["B"]),
    ],
)
def test_an_expression_is_worth_what_it_says(yaql: Yaql, text: str, expected: Json) -> None:
    assert value(yaql, text) == expected


def test_without_a_run_before_everything_counts_as_changed(yaql: Yaql) -> None:
    assert value(yaql, "changed($.storage.ceph)", NodeFacts()) is True
    assert value(yaql, "changed()", NodeFacts()) is True
    assert value(yaql, "added($.plugins)", NodeFacts()) == ["a", "b"]
    assert value(yaql, "old($.plugins).isUndef()", NodeFacts()) is True


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("$.storage.ceph", {"$": ("storage",)}),
        ("$.get(nothing, 5)", {"$": ("nothing",)}),
        ("$.plugins.where($ != 'x')", {"$": ("plugins",)}),
        ("changed($.plugins)", {"$": ("plugins",), "$%old": ("plugins",)}),
        ("$.storage.ceph or $.uid = '1'", {"$": ("storage",)}),  # the second operand does not matter
        ("$.toJson()", {"$": None}),
        ("len($)", {"$": None}),
        ("$node.uid", {"$node": ("uid",)}),
        ("1 + 1", {}),
        ("$.nowhere", {"$": ("nowhere",)}),
    ],
)
def test_an_answer_says_what_was_read(yaql: Yaql, text: str, reads: Json) -> None:
    assert answer(yaql, text).reads == reads


def test_iteration_over_facts_counts_as_a_read_of_all_of_them() -> None:
    for walk in (iter, len, hash, lambda facts: facts == {}):
        facts = Members({"a": 1, "b": "c"})
        assert facts["a"] == 1
        assert "x" not in facts
        assert facts.read == ("a", "x")
        walk(facts)
        assert facts.read is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$.nowhere", "there is no 'nowhere' in the facts; write $.get(name)"),
        ("$.storage.ceph.deep", "asked for its `deep`"),
        ("$.storage.toUpper()", 'No method "toUpper" for such a value'),
        ("1 mod 0", "modulo by zero"),
    ],
)
def test_an_expression_that_fails_on_its_facts_says_why(yaql: Yaql, text: str, said: str) -> None:
    fault = answer(yaql, text).fault
    assert fault is not None
    assert said in fault


def test_a_fault_tells_nothing_of_the_facts(yaql: Yaql) -> None:
    fault = yaql(YaqlQuery("$.secrets.toUpper()", NodeFacts(common={"secrets": {"password": "hunter2"}}))).fault
    assert fault is not None
    assert "hunter2" not in fault


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("changd($.plugins)", "there is no function `changd`; did you mean `changed`?"),
        ("$.plugins.wher($ > 1)", "did you mean `where`?"),
        ("$comon.storage", "there is no `$comon`; did you mean `$common`?"),
        ("$.plugins.", "at character 11: a value was expected, and the expression ends"),
        ("$.plugins ; true", "at character 11: ';' has no meaning here"),
        ("$.plugins = 'x", "at character 13: the text that begins here has no end"),
        ("random() > 0.5", "there is no function `random`"),
        ("now() > 1", "there is no function `now`"),
        ("", "the condition is empty"),
        ("$" + " " * 5000, "at most 4096 bytes"),
    ],
)
def test_a_slip_is_told_before_anything_is_evaluated(text: str, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(Expression(Language.YAQL, text))
    assert said in str(caught.value)


def test_functions_and_variables_that_an_expression_makes_are_known(yaql: Yaql) -> None:
    assert value(yaql, "let(all => $.plugins) -> len($all)") == 2
    assert value(yaql, "def(double, $ * 2) -> double(4)") == 8


WITHOUT_YAQL = """
import sys
sys.modules["yaql"] = None  # as if it were not installed
from nodepool_ocb.tasks.conditions import parse, evaluate, Models
from nodepool_ocb.tasks.tasklist import Expression, Language
from nodepool_ocb.errors import Invalid
assert evaluate(parse(Expression(Language.SETTINGS, "1 == 1")), Models()).holds
assert evaluate(parse(Expression(Language.API, "api.nodes_count() == 0")), Models()).holds
try:
    parse(Expression(Language.YAQL, "$.a"))
except Invalid as error:
    print(error)
"""


def test_without_the_package_only_yaql_is_refused_naming_the_command() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_YAQL], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert f"{sys.prefix}/bin/pip install 'yaql>=3.0'" in done.stdout


IMPORTED = """
import sys
from nodepool_ocb.tasks.conditions import ConditionInputs, Judge, Models
from nodepool_ocb.tasks.tasklist import Expression, Language, Task, TaskKind, TaskList
task = Task(id="a", kind=TaskKind.SHELL, condition=Expression(Language.SETTINGS, "1 == 1"))
assert Judge(TaskList((task,)), ConditionInputs(Models()))(task, None) is None
print("yaql" in sys.modules)
"""


def test_the_package_is_imported_only_when_an_expression_needs_it() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("False\n", "")
