"""Kwalify rules and Ruby's expressions in the words of JSON Schema."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from nodepool_ocb.catalogue import kwalify
from nodepool_ocb.documents.schema import faults_in_value, valid_schema
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ({"type": "str"}, ["a", "", None], [1, True, []]),
        ({"type": "str", "required": True}, ["a"], [None, 1]),
        ({"type": "int"}, [1, None], ["1", 1.5, True]),
        ({"type": "number"}, [1, 1.5], ["1"]),
        ({"type": "bool"}, [True, False], [1, "true"]),
        ({"type": "any"}, [1, "a", None, {}], []),
        ({}, ["a"], [1]),
        ({"sequence": [{"type": "int"}]}, [[1]], ["a", ["a"]]),
        ({"mapping": {"a": {"type": "int"}}}, [{"a": 1}], ["a", {"a": "b"}]),
        ({"type": "str", "enum": ["a", "b"]}, ["a", None], ["c"]),
        ({"type": "int", "range": {"min": 1, "max-ex": 4}}, [1, 3], [0, 4]),
        ({"type": "str", "length": {"min": 2, "max": 3}}, ["ab"], ["a", "abcd"]),
        ({"type": "str", "length": {"min-ex": 2}}, ["abc"], ["ab"]),
        ({"type": "seq", "sequence": [{"type": "str"}]}, [["a"], [], None], ["a", [1]]),
        ({"type": "seq", "sequence": [{"type": "str", "unique": True}]}, [["a", "b"]], [["a", "a"]]),
        ({"type": "map", "mapping": {"=": {"type": "str"}}}, [{"x": "y"}, {}], [{"x": 1}, []]),
        (
            {"type": "map", "mapping": {"name": {"type": "str", "required": True}, "size": {"type": "int"}}},
            [{"name": "a"}, {"name": "a", "size": 3}],
            [{}, {"name": None}, {"name": "a", "sise": 3}],
        ),
        ({"type": "str", "pattern": r"/\Ahttp:\/\/.+\z/"}, ["http://a"], ["xhttp://a", "http://"]),
        ({"type": "str", "pattern": "/[0-9a-f:.]*/"}, ["10.0.0.1", ""], []),
    ],
)
def test_values_are_judged_as_kwalify_judges_them(rule: Any, good: list[Any], bad: list[Any]) -> None:
    schema = kwalify.translate(rule, did_you_mean)
    assert valid_schema(schema) is None
    assert [value for value in good if faults_in_value(schema, value)] == []
    assert [value for value in bad if not faults_in_value(schema, value)] == []


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"type": "string"}, "unknown type `string`"),
        ({"type": "sec"}, "unknown type `sec`; did you mean `seq`?"),
        ({"tipe": "str"}, "unknown key `tipe`; did you mean `type`?"),
        ({"type": "seq"}, "a seq needs a key sequence"),
        ({"type": "map"}, "a map needs a key mapping"),
        ({"type": "seq", "sequence": [{"type": "strr"}]}, "sequence/0: unknown type `strr`; did you mean `str`?"),
        ({"type": "map", "mapping": {"a": {"enum": []}}}, "mapping/a: enum must be a list"),
        ({"type": "int", "range": {"min": "x"}}, "range/min must be a number"),
        ("str", "a rule must be a mapping"),
        ({"pattern": "/(/"}, "pattern /(/: is no regular expression"),
        ({"pattern": "/a/x"}, "the option x"),
        ({"pattern": r"/\Gx/"}, r"\G is Ruby's own"),
        ({"pattern": "a" * 501}, "is longer than 500 letters"),
    ],
)
def test_a_rule_that_cannot_be_said_is_refused_with_a_sentence(rule: Any, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        kwalify.translate(rule, did_you_mean)
    assert sentence in caught.value.problems[0]


def test_a_key_that_is_there_is_not_what_an_unknown_one_means() -> None:
    for rule, end in (({"type": "str", "types": 1}, "`types`"), ({"types": 1}, "; did you mean `type`?")):
        with pytest.raises(Invalid) as caught:
            kwalify.translate(rule, did_you_mean)
        assert caught.value.problems[0].endswith(end)


@pytest.mark.parametrize(
    "slow", ["(a+)+$", "(a|a)*$", "(a*){2,}$", "((a)+b?)*$", "(x(a+)y)+", r"(\w+\s?)*$", "([a-z]+)*$"]
)
def test_expressions_that_could_take_for_ever_are_refused(slow: str) -> None:
    with pytest.raises(ValueError, match="take for ever"):
        kwalify.expression(f"/{slow}/")


@pytest.mark.parametrize(
    "plain",
    ["([0-9a-fA-F]{2}:){5}[0-9a-fA-F]", r"\[?[0-9a-f:.]*\]?:?[0-9]*", "(a|b)c+", "[(+)]*", r"\(+\)*", "^(ab)+$"],
)
def test_expressions_that_repeat_plainly_are_taken(plain: str) -> None:
    started = time.process_time()
    re.search(kwalify.expression(f"/{plain}/"), "a" * 5000 + "!")
    assert time.process_time() - started < 1


def test_a_map_without_rules_is_refused_by_the_place_of_its_rule() -> None:
    with pytest.raises(Invalid) as caught:
        kwalify.translate({"type": "map", "mapping": {"a": {"type": "map"}}}, did_you_mean)
    text = "mapping/a: a map needs a key mapping: the rule for each key, and for all others under the key ="
    assert caught.value.problems == (text,)


def test_the_classes_of_ruby_become_those_of_json_schema() -> None:
    assert kwalify.expression(r"/\A\h+\z/") == "^[0-9a-fA-F]+$"
