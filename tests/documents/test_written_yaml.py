"""YAML that is written is read as the very same, by our own reader of YAML 1.2."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodepool_ocb.documents import document as documents
from nodepool_ocb.documents import plainyaml, written
from nodepool_ocb.errors import Invalid
from tests.fixtures.examples import examples

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.from_regex(
    r"[-+.]?[0-9][0-9_.:eExXo+-]{0,6}", fullmatch=True
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(-1e300, 1e300) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)


@settings(examples(20, long=50), deadline=None)
@given(VALUES, st.booleans())
def test_what_is_written_comes_back_as_it_was(value: object, exact: bool) -> None:
    parsed = plainyaml.parse(written.text(value, exact))
    assert not parsed.faults
    assert repr(parsed.value) == repr(value)


@pytest.mark.parametrize(
    "text",
    ["1e3", "0755", "yes", "null", "~", "1:30", "2026-01-31", "<<", "#", "a: b", "=", "!x", " a\n b\n", "\x1b[0m"],
)
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    assert plainyaml.parse(written.text({text: text})).value == {text: text}


def test_a_file_may_be_as_large_as_its_reader_says() -> None:
    text = "a: [" + ", ".join(["1"] * 30) + "]\n"
    assert documents.load_all(text, "f", most=documents.Bounds(bytes=100, nodes=32))
    with pytest.raises(Invalid, match="makes more than 31 values"):
        documents.load_all(text, "f", most=documents.Bounds(bytes=100, nodes=31))
    with pytest.raises(Invalid, match="is larger than"):
        documents.load_all(text, "f", most=documents.Bounds(bytes=90, nodes=32))


#: Words of records: they are written without PyYAML.
WORDS = st.sampled_from(
    ["ntp", "n1.example.com", "base@n1", "yes", "null", "1n.example.com", "db@*lab", "a: b", "", "a\rb", "a\x85b"]
)
PARTS = st.recursive(
    SCALARS | WORDS | st.sampled_from(["a\nb\n", "a\n\n"]) | st.just("long " * 3000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | TEXTS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(WORDS, PARTS, min_size=1, max_size=3))
def test_a_part_is_written_as_in_the_whole_document(part: dict[str, object]) -> None:
    assert f"nodes:\n{written.block(part, 2)}" == written.text({"nodes": part})


def test_a_part_of_words_is_written_without_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "text", None)
    node = {"alive": True, "tags": [], "noderoles": {"ntp": {"parents": ["base@n1"], "since": 7}, "dns": {}}}
    assert written.block({"n1": node}, 2).splitlines()[-4:] == [
        "        parents:",
        "        - base@n1",
        "        since: 7",
        "      dns: {}",
    ]


@pytest.mark.parametrize("last", ["a\n\n", "\n", "a\n\n\n"])
def test_a_document_goes_on_behind_a_text_with_empty_lines_at_its_end(last: str) -> None:
    nodes = {name: {"ntp": {"user": {"script": last}}} for name in ("n1", "n2")}
    parts = [written.text({"motd": last}), "nodes:\n", *(written.block({name: nodes[name]}, 2) for name in nodes)]
    assert [parsed.value for parsed in plainyaml.parse_all("".join(parts))] == [{"motd": last, "nodes": nodes}]
