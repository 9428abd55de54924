"""How selectors are written, and what is refused: with the place, and what was probably meant."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine.selection import parse
from nodepool_ocb.engine.selection.expression import All, Criterion, CriterionKind, Either, Has, Not
from nodepool_ocb.errors import Invalid


def test_and_binds_more_than_or_and_not_binds_most() -> None:
    found = parse("tag:a or not tag:b tag:c and tag:d")
    assert isinstance(found, Either)
    first, second = found.parts
    assert isinstance(first, Criterion)
    assert isinstance(second, All)
    assert list(map(type, second.parts)) == [Not, Criterion, Criterion]


def test_has_needs_its_parenthesis_and_is_a_name_without() -> None:
    assert isinstance(parse("has(role:ntp)"), Has)
    found = parse("has")
    assert isinstance(found, Criterion)
    assert found.kind is CriterionKind.NAME


@pytest.mark.parametrize("text", ['"or"', "'not'", '"failed"'])
def test_words_of_the_language_are_names_in_quotes(text: str) -> None:
    found = parse(text)
    assert isinstance(found, Criterion)
    assert found.kind is CriterionKind.NAME
    assert found.values[0].text == text[1:-1]


@pytest.mark.parametrize(
    ("text", "value", "glob"),
    [
        ('tag:"a,b (c) *"', "a,b (c) *", None),
        ("tag:a*", "a*", "a*"),
        ("tag:[!]]x", "[!]]x", "[!]]x"),
        ("tag:[[]x", "[[]x", "[[]x"),
        ('tag:"["', "[", None),
        ('tag:"*"*', "**", "[*]*"),
        ("tag:''", "", None),
    ],
)
def test_in_quotes_every_letter_stands_for_itself(text: str, value: str, glob: str | None) -> None:
    found = parse(text)
    assert isinstance(found, Criterion)
    [word] = found.values
    assert (word.text, word.glob) == (value, glob)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the selector is empty; write '*' for everything"),
        ("  ", "the selector is empty"),
        ("tga:web", "character 1: there is no criterion 'tga'; did you mean `tag`?"),
        ("tag:web sate:ERROR", "character 9: there is no criterion 'sate'; did you mean `state`?"),
        ("x:y", "these are: name:, tag:"),
        ("tag:", "character 1: a value of tag: is missing"),
        ("tag:a,,b", "character 7: a value of tag: is missing"),
        ("state:eror", "character 7: no state is called 'eror'; did you mean `ERROR`?"),
        ("state:A*", "character 7: no state is called 'A*'"),
        ("alive:maybe", "alive: is never 'maybe'; there is: yes, no"),
        ("outdated:yes", "outdated has no value: write outdated, or not outdated"),
        ("tag:a or", "character 9: a criterion is missing at the end"),
        ("or tag:a", "character 1: a criterion is missing before 'or'"),
        ("not", "character 4: a criterion is missing at the end"),
        ("(tag:a", "character 1: this parenthesis is not closed"),
        ("tag:a)", "character 6: this parenthesis closes nothing"),
        ('tag:"a', "this quote is not closed"),
        ('tag:a   "b', "character 9: this quote is not closed"),
        ('"a', "character 1: this quote is not closed"),
        ("tag:[", "character 5: this [ is not closed; in quotes it stands for itself"),
        ("tag:a[1-3]b[", "character 12: this [ is not closed"),
        ("tag:[a,b]", "character 5: this [ is not closed"),
        ("name:[]", "character 6: this [ is not closed"),
        ("ntp@", "write ROLE@FQDN"),
        ("label:=x", "character 7: the key is missing"),
        ("role:ntp state:TODO role:dns", "no noderole is both role:ntp and role:dns; write"),
        ("state:TODO state:ACTIVE", "has(state:TODO) has(state:ACTIVE)"),
        ("tag:" + "a" * 1021, "the selector has 1025 characters, and may have 1024; shorten it"),
        (" ".join(["x"] * 201), "the selector has 201 parts, and may have 200; shorten it"),
        ("(" * 31 + "x" + ")" * 31, "nested deeper than 30"),
        ("not " * 31 + "x", "nested deeper than 30"),
    ],
)
def test_unreadable_selectors_are_refused_with_their_place(text: str, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse(text)
    assert message in str(refused.value)
