"""The settings language of conditions: its words, its odd precedence, and what a missing path is."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks.conditions import ConditionResult, Models, evaluate, parse
from nodepool_ocb.tasks.tasklist import Expression, Language

MODELS = Models(
    settings={"storage": {"objects_ceph": {"value": False}, "kinds": ["x", "y"], "one": 1, "name": "xy"}, "empty": {}},
    cluster={"status": "new", "mode": "ha_compact"},
)


def judged(text: str, *, strict: bool = True) -> ConditionResult:
    return evaluate(parse(Expression(Language.SETTINGS, text, strict=strict)), MODELS)


def refusal(text: str) -> str:
    with pytest.raises(Invalid) as caught:
        judged(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("settings:storage.objects_ceph.value == true", False),
        ("settings:storage.objects_ceph.value != true", True),
        ("settings:storage.one == 1 and settings:storage.one != -1", True),
        ("'x' in settings:storage.kinds", True),
        ("'z' in settings:storage.kinds", False),
        ("'x' in settings:storage.name", True),
        ("'one' in settings:storage", True),
        ('cluster:status == "new"', True),
        ("cluster:status == 'operational' or (cluster:mode == 'ha_compact' and not false)", True),
        ("settings:storage.name", "xy"),
        ("null == null", True),
        (" ( ( true ) ) \n", True),
        ("'it is \"quoted\"' == 'x'", False),
    ],
)
def test_an_expression_is_worth_what_it_says(text: str, value: object) -> None:
    assert judged(text).value == value


def test_not_binds_tighter_than_in_and_than_comparisons() -> None:
    assert judged("not 'x' in settings:storage.kinds").value is False  # (not 'x') in ...: false in ["x", "y"]
    assert judged("not ('x' in settings:storage.kinds)").value is False
    assert judged("not ('z' in settings:storage.kinds)").value is True
    assert judged("not 'z' in settings:storage.kinds").value is False
    assert judged("not 1 == 2").value is False  # (not 1) == 2
    assert judged("not (1 == 2)").value is True


def test_in_binds_tighter_than_a_comparison_and_and_tighter_than_or() -> None:
    assert judged("true == 'x' in settings:storage.kinds").value is True
    assert judged("true or true and false").value is True
    assert judged("1 == 1 == true").value is True  # from left to right


def test_the_second_operand_is_read_only_if_it_matters() -> None:
    assert judged("false and settings:nowhere == 1").value is False
    assert judged("true or settings:nowhere == 1").value is True


def test_a_missing_path_is_an_error_that_names_it_and_what_was_probably_meant() -> None:
    message = refusal("settings:storage.object_ceph.value == true")
    assert "settings:storage.object_ceph.value leads nowhere" in message
    assert "settings:storage has no `object_ceph`; did you mean `objects_ceph`?" in message
    assert "settings: has no `storag`; did you mean `storage`?" in refusal("settings:storag == 1")
    assert "settings:storage.name has no `length`" in refusal("settings:storage.name.length == 2")


def test_a_missing_path_is_null_where_the_document_or_the_path_says_so() -> None:
    assert judged("settings:nowhere.at.all == null", strict=False).value is True
    assert judged("settings:nowhere.at.all? == null").value is True


@pytest.mark.parametrize("strict", [True, False])
def test_an_unknown_model_is_always_an_error(strict: bool) -> None:
    with pytest.raises(Invalid, match="at character 10: there is no model `setings`; did you mean `settings`"):
        judged("true and setings:a == 1", strict=strict)


@pytest.mark.parametrize(
    ("text", "position", "word"),
    [
        ("a ;== true", 3, "';' has no meaning here"),
        ("settings:a = 1", 12, "write `==`"),
        ("(1 == 1", 8, "missing for the `(` at character 1"),
        ("1 == 1)", 7, "`)` comes where"),
        ("1 == 'abc", 6, "has no end"),
        ("settings:a..b == 1", 1, "a name too few"),
        ("1 == ", 6, "the condition ends"),
        ("1 == == 1", 6, "comes where a value was expected"),
        ("1 1", 3, "comes where and, or"),
        ("truee", 1, "did you mean `true`"),
        ("1.5 == 1", 1, "no meaning"),
        ("1_000 == 1", 1, "no meaning"),
        ("settings:a == \u0661", 15, "no meaning"),  # an Arabic digit
        ("\u0455ettings:a == 1", 1, "no meaning"),  # a Cyrillic letter
        ("1 == 1\x00", 7, "no meaning"),
    ],
)
def test_unreadable_expressions_are_refused_with_their_position(text: str, position: int, word: str) -> None:
    message = refusal(text)
    assert message.startswith(f"at character {position}: ")
    assert word in message


def test_the_values_of_two_kinds_are_an_error_where_they_cannot_be_compared() -> None:
    assert "1 in 3 has no meaning" in refusal("1 in 3")
    assert judged("'1' == 1").value is False


def test_a_verdict_says_on_which_values_it_was_reached() -> None:
    verdict = judged("settings:storage.objects_ceph.value == true or cluster:status == 'operational'")
    assert not verdict.holds
    assert str(verdict) == (
        "false: settings:storage.objects_ceph.value == true or cluster:status == 'operational',"
        ' where settings:storage.objects_ceph.value is false and cluster:status is "new"'
    )
    assert len(str(judged("settings:storage == 1"))) < 150, "a long value is cut"


# A slow reference: no grammar, but cuts at the operator that binds loosest, and last of these; in brackets first.

OPERANDS = {"0": 0, "1": 1, "'x'": "x", "'xy'": "xy", "true": True, "false": False, "null": None, "''": ""}
LOOSEST_FIRST = (("or",), ("and",), ("==", "!="), ("in",))


def slowly(words: list[Any]) -> Any:
    while "(" in words:
        opening = len(words) - 1 - words[::-1].index("(")
        closing = words.index(")", opening)
        words = [*words[:opening], [slowly(words[opening + 1 : closing])], *words[closing + 1 :]]
    for level in LOOSEST_FIRST:
        places = [place for place, word in enumerate(words) if isinstance(word, str) and word in level]
        if places:
            cut = places[-1]
            return combined(words[cut], words[:cut], words[cut + 1 :])
    if words[0] == "not":
        return not slowly(words[1:])
    (word,) = words
    return word[0] if isinstance(word, list) else OPERANDS[word]


def combined(word: str, left: list[Any], right: list[Any]) -> Any:
    first = slowly(left)
    if word == "or":
        return first or slowly(right)
    if word == "and":
        return first and slowly(right)
    operators: Mapping[str, Any] = {"==": operator.eq, "!=": operator.ne, "in": lambda a, b: a in b}
    return operators[word](first, slowly(right))


def expressions() -> st.SearchStrategy[str]:
    words = st.sampled_from([word for level in LOOSEST_FIRST for word in level])
    return st.recursive(
        st.sampled_from(sorted(OPERANDS)),
        lambda inner: st.one_of(
            st.tuples(inner, words, inner).map(" ".join),
            inner.map("not {}".format),
            inner.map("( {} )".format),
        ),
        max_leaves=12,
    )


@given(expressions())
def test_every_expression_is_worth_what_the_slow_reference_says(text: str) -> None:
    words = re.findall(r"[^ ]+", text)
    try:
        expected = slowly(words)
    except TypeError:
        assert "has no meaning" in refusal(text)
    else:
        found = judged(text).value
        assert (type(found), found) == (type(expected), expected)


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["settings:a", "cluster:", "not", "(", ")", "'", "in", "==", "-", "1"])).map(" ".join)
)
def test_any_text_is_worth_something_or_refused(text: str) -> None:
    with suppress(Invalid):
        judged(text)
