"""YAML that is read with suspicion."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.documents.plainyaml import ALIASES, DEPTH, ParsedYaml, parse, parse_all


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("off", "off"),
        ("true", True),
        ("True", True),
        ("tRUE", "tRUE"),
        ("~", None),
        ("", None),
        ("1:30", "1:30"),
        ("2015-08-01", "2015-08-01"),
        ("0755", "0755"),
        ("0000", "0000"),
        ("0o17", "0o17"),
        ("0", 0),
        ("-12", -12),
        ("1_000", "1_000"),
        ("0x1f", 31),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("00:1e:67", "00:1e:67"),
        ("cafe", "cafe"),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("=", "="),
        ("/[0-9a-f:.]*/", "/[0-9a-f:.]*/"),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("0.0.0.0", "0.0.0.0"),
    ],
)
def test_scalars_are_those_of_yaml_1_2_and_text_stays_text(text: str, value: object) -> None:
    parsed = parse(f"a: {text}\n")
    assert parsed.faults == []
    assert parsed.value == {"a": value}
    assert type(parsed.value["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "sentence", "line"),
    [
        ("a: 1\na: 2\n", "key is there twice, first in line 1; remove one of them", 2),
        ("x:\n  1: b\n", "key 1 must be text, and is a number; quote it", 2),
        ("true: b\n", "key true must be text, and is true or false; quote it", 1),
        ("? [a]\n: b\n", "a key must be text, and is not; quote it", 1),
        (
            "a: !!python/object/apply:os.system [id]\n",
            "tag tag:yaml.org,2002:python/object/apply:os.system is not allowed",
            1,
        ),
        ("a: !ruby/object:Foo {}\n", "tag !ruby/object:Foo is not allowed", 1),
        ("a: .inf\n", ".inf is not a number in JSON", 1),
        ("a: 1e999\n", "is too large for a number; quote it", 1),
        pytest.param(f"a: {'9' * 5000}\n", "is too large for a number; quote it", 1, id="of 5000 digits"),
        pytest.param(f"a: 0x{'f' * 297}\n", "is too large for a number; quote it", 1, id="of 358 digits"),
        ("a: &x [*x]\n", "alias *x holds itself", 1),
        ("a: *x\n", "alias", 1),
        ("a: 1\n---\nb: 2\n", "a second document begins here", 2),
        ("a: [1, 2\nb: 3\n", "is not YAML", 2),
        ("a: {<<: 1}\n", "merge key << needs a mapping", 1),
        ("a: '\x00'\n", "is not YAML", 1),
        ('a: "\\ud800"\n', "is not YAML", 1),
    ],
)
def test_refused_entries_are_named_with_their_line(text: str, sentence: str, line: int) -> None:
    faults = parse(text).faults
    assert len(faults) == 1
    assert sentence in faults[0].text
    assert faults[0].line == line


def test_every_fault_is_told_at_once() -> None:
    faults = parse("a: 1\na: 2\nb: {1: x, c: !foo d}\ne: .nan\n").faults
    assert [fault.line for fault in faults] == [2, 3, 3, 4]


def test_merge_keys_merge_and_own_keys_win() -> None:
    parsed = parse("base: &b {x: 1, y: 2}\nmore: &m {x: 7, z: 3}\nall:\n  <<: [*b, *m]\n  y: 9\n")
    assert parsed.faults == []
    assert parsed.value["all"] == {"x": 1, "z": 3, "y": 9}


def test_depth_is_bounded_and_nothing_overflows() -> None:
    assert parse("[" * DEPTH + "]" * DEPTH).faults == []
    for deep in ("[" * 100_000, "a: " * 3 + "{a: " * 60 + "}" * 60, "- " * 1000 + "x"):
        assert parse(deep).faults


def test_an_alias_bomb_is_refused_at_once() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
    )
    started = time.process_time()
    faults = parse(bomb).faults
    assert "makes more than" in faults[0].text
    assert time.process_time() - started < 1


def test_a_bomb_of_merge_keys_is_refused_too() -> None:
    big = "a: &a {" + ", ".join(f"k{n}: 1" for n in range(2000)) + "}\n"
    assert "makes more than" in parse(big + "".join(f"b{n}: {{<<: *a}}\n" for n in range(90))).faults[0].text


def test_aliases_are_counted() -> None:
    def text(count: int) -> str:
        return "a: &a 1\nb: [" + ", ".join(["*a"] * count) + "]\n"

    assert parse(text(ALIASES)).faults == []
    assert f"more than {ALIASES} aliases" in parse(text(ALIASES + 1)).faults[0].text


def test_a_key_that_is_there_twice_with_one_value_is_a_warning() -> None:
    parsed = parse("a: {b: [1, x], c: 2}\nd: 0\na: {c: 2, b: [1, x]}\n")
    assert (parsed.value, parsed.faults) == ({"a": {"b": [1, "x"], "c": 2}, "d": 0}, [])
    (warning,) = parsed.warnings
    sentence = "key is there twice with one value, first in line 1; remove one of them"
    assert (warning.line, warning.path, warning.text) == (3, "a", sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a:\na: [x]\n", "key is there twice, first in line 1 without a value; this value counts"),
        ("a: [x]\na:\n", "key is there twice, here without a value, first in line 1; that value counts"),
    ],
)
def test_of_a_key_that_is_there_twice_and_once_without_a_value_the_value_counts(text: str, sentence: str) -> None:
    parsed = parse(text)
    assert (parsed.value, parsed.faults) == ({"a": ["x"]}, [])
    assert [(warning.line, warning.text) for warning in parsed.warnings] == [(2, sentence)]
    assert parsed.lines["a", 0] == text.split("\n").index("a: [x]") + 1


@pytest.mark.parametrize("second", ["1.0", "true", "'1'", "2"])
def test_values_of_two_types_are_two_values(second: str) -> None:
    parsed = parse(f"a: 1\na: {second}\n")
    assert [fault.line for fault in parsed.faults] == [2]
    assert parsed.warnings == []


def test_lines_are_those_of_keys_and_items() -> None:
    parsed = parse("a:\n  - x: 1\n    y:\n      - 2\n      - 3\nb: {c: 4}\n")
    wanted = {("a",): 1, ("a", 0): 2, ("a", 0, "x"): 2, ("a", 0, "y"): 3, ("a", 0, "y", 1): 5, ("b", "c"): 6}
    assert {key: parsed.lines[key] for key in wanted} == wanted


@given(st.text(alphabet="ab:-[]{},&*!<>|?'\"#%@ \n\t0159.~\\", max_size=60))
def test_no_text_makes_it_raise(text: str) -> None:
    parse(text)


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(alphabet=st.characters(codec="ascii", categories=["L", "N", "P"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(_json)
def test_json_is_yaml_and_comes_back_as_it_was(value: object) -> None:
    import json

    parsed = parse(json.dumps(value))
    assert parsed.faults == []
    assert parsed.value == value


def test_a_text_of_several_documents() -> None:
    found = parse_all("# one\na: 1\n---\n---\nb: &x 2\n...\n---\nc: {d: 3}\n")
    assert [parsed.value for parsed in found] == [{"a": 1}, None, {"b": 2}, {"c": {"d": 3}}]
    assert [parsed.lines[()] for parsed in found] == [2, 4, 5, 8]
    assert found[3].lines[("c", "d")] == 8
    assert parse_all("") == [ParsedYaml(None, {}, [])]


def test_several_documents_are_as_guarded_as_one() -> None:
    assert [
        (fault.line, fault.text) for parsed in parse_all("a: 1\na: 2\n---\nb: !x 1\n") for fault in parsed.faults
    ] == [
        (2, "key is there twice, first in line 1; remove one of them"),
        (4, "tag !x is not allowed; remove it: documents are plain data"),
    ]
    (fault,) = parse_all("a: &x 1\n---\nb: *x\n")[1].faults
    assert (fault.line, fault.text) == (3, "alias *x is not defined before it is used; write the value out")
    many = parse_all("- [" + "0," * 1000 + "]\n---\n" * 1 + ("- [" + "0," * 1000 + "]\n---\n") * 150)
    assert len(many) < 110
    assert "makes more than 100000 values" in many[-1].faults[0].text
    aliases = parse_all("- &x 1\n- [" + "*x," * 60 + "]\n---\n- &x 1\n- [" + "*x," * 60 + "]\n")
    assert aliases[1].faults[0].text == f"has more than {ALIASES} aliases; write the values out"
    broken = parse_all("a: 1\n---\n[\n")
    assert [bool(parsed.faults) for parsed in broken] == [False, True]


@pytest.mark.parametrize(
    ("text", "line"),
    [("a:\n\tb: 1\n", 2), ("\u00e9: '\u00fc'\na: 1\n\tb: 2\n", 3), ("a:\r\n  - x\r\n\t- y\r\n", 3), ("a: |\n\tb\n", 2)],
)
def test_a_tab_is_called_a_tab(text: str, line: int) -> None:
    (fault,) = parse(text).faults
    assert fault.text == "is not YAML: a tab; use spaces"
    assert fault.line == line


def test_the_line_in_which_an_open_bracket_stands_is_named() -> None:
    (fault,) = parse("a:\n  b: [1, 2\nc: 3\n").faults
    said = " parsing a flow sequence that begins in line 2; correct it here or just above"
    assert (fault.line, fault.text.split("while")[1]) == (3, said)


def test_the_last_value_of_a_key_counts_for_who_asks_for_it() -> None:
    text = "a: {x: 1, y: [1,\n2]}\na:\n  x: 3\nb: 1\nb: 1\n"
    (parsed,) = parse_all(text, last=True)
    assert parsed.value == {"a": {"x": 3}, "b": 1}
    assert [(warning.line, warning.text) for warning in parsed.warnings] == [
        (3, "key is there twice, first in line 1; this value counts"),
        (6, "key is there twice, first in line 5; this value counts"),
    ]
    assert parsed.lines[("a", "x")] == 4
    assert ("a", "y", 1) not in parsed.lines
    assert parsed.faults == []


def test_more_than_a_hundred_keys_twice_are_too_many() -> None:
    (parsed,) = parse_all("a: 1\n" * 102, last=True)
    assert [fault.text for fault in parsed.faults] == ["has more than 100 keys twice; remove each second one"]


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64 + 1, -(10**29), 10**200])
def test_an_integer_stays_an_integer_here_and_in_records(number: int) -> None:
    for text in (str(number), hex(number) if number > 0 else str(number)):
        value = parse(f"a: {text}\n").value
        assert isinstance(value, dict)
        assert (type(value["a"]), value["a"]) == (int, number)
    stored = msgspec.json.decode(msgspec.json.encode({"a": number}))
    assert (type(stored["a"]), stored["a"]) == (int, number)
