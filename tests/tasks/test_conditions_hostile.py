"""Hostile expressions: each is refused, or ended within 100 ms of CPU time, in whatever language."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.bounded import worker
from nodepool_ocb.bounded.yaql import TOO_LONG, Yaql
from nodepool_ocb.errors import Invalid, OcbError
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.conditions import Models, NodeFacts, evaluate, parse
from nodepool_ocb.tasks.conditions.yaql.evaluation import YaqlQuery
from nodepool_ocb.tasks.tasklist import Expression, Language

LIMIT_SECONDS: Final = 0.1  # of CPU time
TOO_MUCH_MEMORY: Final = "Expression consumed too much memory; correct the expression"
NOISE: Final = 5  # times as much on a machine that is busy
FACTS: Final = NodeFacts(common={"a": {"b": [1, 2, 3]}, "text": "a" * 60 + "!", "secret": "hunter2"}, node={"uid": "1"})

#: Refused as they are read, in the settings language.
SETTINGS: Final = (
    "settings:__class__.__mro__ == 1 ; import os",
    "settings:a.__class__()",
    "().__class__.__bases__[0]",
    "__import__('os').system('true')",
    "lambda: 1",
    "9 ** 9 ** 9",
    "'a' * 1000000000",
    "(" * 21 + "1" + ")" * 21,
    "(" * 500 + "1" + ")" * 500,
    "(" * 1000,
    "not " * 200 + "true",
    "'" + "a" * 2000 + "' == 1",
    "1 == 1 or " * 99 + "true",
    "settings:" + "a." * 500,
    "settings:a == true #",
    "settings:a == \u202etrue",  # written from right to left
    "\uff53ettings:a == true",  # a full-width s
    "true\u00a0== true",  # a space that is none
    "settings:a == \ud800",  # half a letter
    "settings:a.b\x00 == 1",
    "{{ settings }}",
    "settings:a | upper",
    "settings:a[0]",
    "1 if true else 2",
    "true; true",
    "\\x74rue",
    "1" * 2000,
)
#: Refused as they are read, in the language of `api`.
API: Final = (
    "api.__class__.__mro__[1].__subclasses__()",
    "api.cluster_status.__class__",
    "api['cluster_status']",
    "api.role_in_cluster.__globals__",
    "api.role_in_cluster(role='x')",
    "api.role_in_cluster(*['x'])",
    "api.role_in_cluster(**{'role': 'x'})",
    "api.role_in_cluster(api.cluster_status)",
    "api.cluster_status.upper()",
    "''.__class__",
    "''.join(['a'])",
    "'a' * 1000000000",
    "9 ** 9 ** 9 ** 9",
    "1 + 1",
    "1 // 0",
    "'%s' % 'a'",
    "'a' ~ 'b'",
    "range(1000000000)",
    "lipsum.__globals__['os'].popen('true')",
    "cycler.__init__.__globals__",
    "self",
    "namespace(a=1)",
    "api|attr('cluster_status')",
    "[1]|map('string')|list",
    "{'a': 1}",
    "1 is defined",
    "1 if 1 else 2",
    "[1, 2][0]",
    "[1, 2][0:1]",
    "1 }}{% for x in range(1000000000) %}{% endfor %}{{ 1",
    "{% set x = 1 %}",
    "{# #} 1",
    "1 # 2",
    "(" * 21 + "1" + ")" * 21,
    "[" * 21 + "1" + "]" * 21,
    "(" * 500 + "1" + ")" * 500,
    "not " * 21 + "true",
    "1 == 1 or " * 99 + "true",
    "1 < " * 199 + "2",
    "'" + "a" * 2000 + "' == 'a'",
    "\u0430pi.nodes_count()",  # a Cyrillic a
    "api.nodes_count() > \u0661",
    "api.nodes_count()\r",
    "'\ud800' == 1 +",
    "1e999999999 ** 2",
    "9" * 2000,
    "lambda: 1",
    "api.nodes_count() and",
    "api." * 60,
)
#: YAQL that is refused as it is read.
YAQL: Final = (
    "$.__class__",
    "$.a.__class__.__mro__",
    "__import__(os)",
    "format('{0.__class__}', 1)",
    "'{0.__class__}'.format(1)",
    "eval('1')",
    "open('/etc/passwd')",
    "env()",
    "now()",
    "random()",
    "$os",
    "'\\N{no such letter}'",
    "'\\U99999999'",
    "$ ; $",
    "$" * 5000,
    "(" * 2500 + "1" + ")" * 2500,
    "$.where($ > 1",
    "lambda($)",
    "10 ** 10 ** 10",
)
#: YAQL that fails, or is ended.
ENDLESS: Final = (
    "range(1000000000).sum()",
    "range(9000).select(range(9000).sum()).sum()",
    "range(9000).select(range(9000).select(range(9000))).toJson()",
    "sequence().len()",
    "generate(0, true, $ + 1).len()",
    "cycle([1]).len()",
    "repeat(1).len()",
    "def(f, f()) -> f()",
    "def(f, $ + f($)) -> f(1)",
    "pow(10, pow(10, 10))",
    "range(400).aggregate($1 * $1, 99)",
    "shiftBitsLeft(1, 100000000000)",
    "shiftBitsLeft(1, 4000000000) > 1",
    "'a' * 1000000000",
    "range(9000).select('a' * 90000).join('')",
    "[1] * 1000000000",
    "range(20).aggregate($1 + $1, [1, 2]).toJson()",
    "$.text.matches('(a+)+$')",
    "$.text =~ '((a|a)*)*$'",
    "regex('(a*)*b').search($.text)",
    "regex('(x+x+)+y').replace('x' * 90, '')",
    "let(x => $.text * 1000) -> ($x + $x).matches('(.*)*(.*)*z')",
    "call('no_such', [], {})",
    "assert(1, false)",
    "not " * 900 + "true",
    "(" * 1500 + "1" + ")" * 1500,
    "'z'.zzz",
)
#: YAQL that is large, and ends well.
HARMLESS: Final[dict[str, Json]] = {
    "range(50).sum()": 1225,
    "float('inf') > 1": True,
    "'\\x41' = 'A'": True,
    "$.text.len()": 61,
}


@pytest.fixture(scope="module")
def yaql() -> Iterator[Yaql]:
    with Yaql() as evaluator:
        evaluator(YaqlQuery("1"))
        yield evaluator


def refused(language: Language, text: str) -> None:
    begun = time.process_time()
    with pytest.raises(Invalid):
        evaluate(parse(Expression(language, text)), Models(settings={"a": 1}, cluster={"status": "new"}))
    assert time.process_time() - begun < LIMIT_SECONDS * NOISE


@pytest.mark.parametrize("text", SETTINGS, ids=range(len(SETTINGS)))
def test_a_hostile_expression_of_the_settings_language_is_refused(text: str) -> None:
    refused(Language.SETTINGS, text)


@pytest.mark.parametrize("text", API, ids=range(len(API)))
def test_a_hostile_expression_over_api_is_refused(text: str) -> None:
    refused(Language.API, text)


@pytest.mark.parametrize("text", YAQL, ids=range(len(YAQL)))
def test_a_hostile_expression_of_yaql_is_refused(text: str) -> None:
    parse(Expression(Language.YAQL, "1"))  # the package is there
    refused(Language.YAQL, text)


@pytest.mark.parametrize("text", ENDLESS, ids=range(len(ENDLESS)))
def test_an_expression_of_yaql_that_would_not_end_is_ended(yaql: Yaql, text: str) -> None:
    yaql(YaqlQuery("1"))  # the worker is there
    before = children_seconds() + worker_seconds(yaql)
    answer = yaql(YaqlQuery(text, FACTS))
    taken = children_seconds() + worker_seconds(yaql) - before
    assert answer.fault is not None
    assert answer.value is None
    assert "hunter2" not in answer.fault
    assert answer.hostile == (answer.fault == TOO_LONG)
    assert taken < LIMIT_SECONDS * NOISE
    assert yaql(YaqlQuery("$.uid", FACTS)).value == "1", "the next expression is evaluated as ever"


@pytest.mark.parametrize("text", HARMLESS)
def test_an_expression_that_only_looks_hostile_is_evaluated(yaql: Yaql, text: str) -> None:
    assert yaql(YaqlQuery(text, FACTS)).value == HARMLESS[text]


def test_an_expression_may_walk_over_a_thousand_nodes(yaql: Yaql) -> None:
    entry = {
        "fqdn": "node-1.example.com",
        "user_node_name": "node-1",
        "role": "compute",
        "internal_address": "10.20.30.40",
    }
    facts = NodeFacts(common={"nodes": [{**entry, "uid": str(number)} for number in range(1000)]})
    found = yaql(YaqlQuery("$.nodes.where($.role = compute).len()", facts))
    assert found.fault is None
    assert found.value == 1000


def test_an_expression_has_a_tenth_of_a_second_and_more_for_many_facts() -> None:
    assert worker.CPU_SECONDS == LIMIT_SECONDS
    assert worker.CPU_SECONDS_A_KIB * 600 <= 6, "for the most facts that a node can have"


@pytest.mark.parametrize("text", ["shiftBitsLeft(1, 2400000000) = 0", "'a' * 200000000 = ''"])
def test_an_expression_has_a_hundred_mebibytes(yaql: Yaql, text: str) -> None:
    fault = yaql(YaqlQuery(text)).fault
    assert fault in ("it takes more memory than it may; simplify it", TOO_MUCH_MEMORY)


def test_the_package_counts_memory_before_it_is_taken(yaql: Yaql) -> None:
    assert yaql(YaqlQuery("'a' * 1000000000")).fault == TOO_MUCH_MEMORY


def test_between_expressions_the_worker_has_all_the_time_it_needs(yaql: Yaql) -> None:
    assert yaql(YaqlQuery("1")).value == 1
    process = yaql._process
    before = worker_seconds(yaql)
    while worker_seconds(yaql) - before < 3 * LIMIT_SECONDS:
        assert yaql(YaqlQuery("(" * 2000)).fault, "it cannot be read, so it is not evaluated"
    assert yaql(YaqlQuery("1")).value == 1
    assert yaql._process is process


def test_every_worker_gives_the_same_answer() -> None:
    answers = set()
    for _ in range(3):
        with Yaql() as evaluator:
            answers.add(tuple(evaluator(YaqlQuery("set(a, b, c, d, e, f, g, h, i, j, k).toList()")).value))
    assert len(answers) == 1


def test_a_worker_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    large = NodeFacts(common={"text": "x" * 300_000})
    with Yaql() as evaluator:
        assert evaluator(YaqlQuery("$.text.len()", large)).value == 300_000
        process = evaluator._process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        monkeypatch.setattr("nodepool_ocb.bounded.yaql.WAIT_SECONDS", 0.2)
        with pytest.raises(OcbError, match="YAQL gave no answer"):
            evaluator(YaqlQuery("$.text.len()", large))
        assert process.returncode is not None
        monkeypatch.undo()
        assert evaluator(YaqlQuery("$.text.len()", large)).value == 300_000


def test_a_worker_that_somebody_ended_is_said(yaql: Yaql) -> None:
    yaql(YaqlQuery("1"))
    process = yaql._process
    assert process is not None
    process.terminate()
    process.wait()
    with pytest.raises(OcbError, match="ended with status -15"):
        yaql(YaqlQuery("1"))
    assert yaql(YaqlQuery("1")).value == 1


def test_an_interrupt_at_the_terminal_does_not_reach_the_worker(yaql: Yaql) -> None:
    yaql(YaqlQuery("1"))
    assert yaql._process is not None
    assert os.getsid(yaql._process.pid) != os.getsid(0)


def test_the_worker_ends_with_who_began_it() -> None:
    evaluator = Yaql()
    assert evaluator(YaqlQuery("1 + 1")).value == 2
    process = evaluator._process
    assert process is not None
    evaluator.close()
    assert process.returncode is not None
    assert evaluator(YaqlQuery("1 + 1")).value == 2, "and is begun again when it is wanted"
    evaluator.close()


def worker_seconds(yaql: Yaql) -> float:
    """CPU time of the worker that runs now."""
    if yaql._process is None:
        return 0.0
    fields = Path(f"/proc/{yaql._process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_seconds() -> float:
    """CPU time of the children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
