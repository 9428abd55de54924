"""Simple lines give the value and the lines of numbers that the parser gives, or are left to it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.documents import blocks, plainyaml
from nodepool_ocb.documents.plainyaml import DEPTH, NODES, ParsedYaml

KEYS: Final = (
    "a", "b", "ntp@n1.example.com", "step-1", "_x", "1", "0755", "true", "yes", "null", "1.5", ".5", "a/b", "a+b", "<<", "a:b",
    "'a'", "-a", "a-", "a b", "&x a", "!x a", ".inf", "10.0.0.1", "=", "?", "a" * 999, "a" * 1030,
)  # fmt: skip
VALUES: Final = (
    "", " ", "x", "x ", "two words", "two  words", "true", "no", "null", "~", "12", "-12", "+1", "0x1f", "0755", "1.5", "1e5",
    "1e9999", ".5", ".inf", "-.inf", ".nan", "10.0.0.1", "52:54:00:00:00:01", "http://a:1/b?c", "http://a:1/b", "a:", "a: b",
    "a #b", "a#b", "# c", "'q'", "'q: #'", "''", "'it''s'", "'open", '"q"', '"q\\n"', '""', '"open', "[]", "[ ]", "{}", "[a]",
    "{a: b}", "*x", "&x y", "!x y", "| ", "|", ">", "- a", "-", "-a", "@a", "%a", ",a", "a,b", "=", "...", "---", "`a", "a\tb",
    "ü", "'ü'", "\x7f", "9" * 301, "1" * 299,
)  # fmt: skip
WHOLE: Final = (
    "", "  ", "# c", "   # c", "---", "...", "%YAML 1.2", "x", "  x", "- ", "-", "\t", "? a", "- - a", "-  a: 1", "# \x07",
    "# \ta", "# a\rb: 1", "# a\u2028b: 1",
)  # fmt: skip
PLAIN: Final = ("", "x", "1", "[]", "{}", "'q'")
SEEDS: Final = 12
EACH: Final = 250


def block(draw: random.Random, indent: int, above: int) -> list[str]:
    """The lines of a mapping or a list."""
    begin = " " * indent
    lines: list[str] = []
    if draw.random() < 0.4 and indent >= above:
        for _ in range(draw.randint(1, 3)):
            match draw.randint(0, 3):
                case 0:
                    inner = block(draw, indent + 2, indent + 3)
                    lines += [f"{begin}- {inner[0].lstrip()}", *inner[1:]]
                case _:
                    lines.append(f"{begin}- {draw.choice(PLAIN)}")
        return lines
    for key in draw.sample("abcdefgh", draw.randint(1, 3)):
        deeper = draw.choice((indent, indent + 1, indent + 2, indent + 4))
        inner = block(draw, deeper, indent + 1) if indent < 6 and draw.random() < 0.4 else []
        if inner and deeper == indent and not inner[0].lstrip().startswith("- "):
            inner = []
        lines += [f"{begin}{key}:", *inner] if inner else [f"{begin}{key}: {draw.choice(PLAIN)}".rstrip()]
    return lines


def changed(draw: random.Random, lines: list[str]) -> list[str]:
    """With another line somewhere: most of such texts are odd or faulty."""
    at = draw.randrange(len(lines))
    line = lines[at]
    match draw.randint(0, 5):
        case 0:
            return [*lines[:at], *lines[at + 1 :]]
        case 1:
            return [*lines[:at], draw.choice(WHOLE), *lines[at:]]
        case 2:
            return [
                *lines[:at],
                draw.choice(("", " ", "  ")) + line.removeprefix(draw.choice(("", " ", "  "))),
                *lines[at + 1 :],
            ]
        case 3:
            return [*lines[:at], line.replace("a:", draw.choice(KEYS) + ":").replace("b:", "a:"), *lines[at + 1 :]]
        case 4:
            return [*lines[:at], line.replace("- ", draw.choice(("-  ", "", "- - ", "-"))), *lines[at + 1 :]]
        case _:
            return [*lines[:at], f"{line.rpartition(' ')[0]} {draw.choice(VALUES)}", *lines[at + 1 :]]


def parsed(text: str) -> ParsedYaml:
    """As the parser has it."""
    return next(plainyaml._documents(text, only=True))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_lines_that_are_read_without_the_parser_are_read_as_it_reads_them(seed: int) -> None:
    draw = random.Random(seed)
    read = 0
    for _ in range(EACH):
        lines = block(draw, 0, 0)
        for _ in range(draw.choice((0, 1, 1, 2))):
            lines = changed(draw, lines) or ["a: 1"]
        text = "\n".join(lines) + draw.choice(("", "\n"))
        if (found := blocks.read(text, DEPTH, NODES)) is not None:
            read += 1
            assert parsed(text) == ParsedYaml(*found, []), text
    assert EACH / 5 < read < EACH


@pytest.mark.parametrize("value", VALUES)
def test_each_value_is_read_as_the_parser_reads_it(value: str) -> None:
    for text in (
        f"a: {value}",
        f"- {value}",
        f"a:\n- {value}\nb: 1",
        f"- a: {value}\n  b: 2",
        f"{value}",
        f"a:\n  {value}",
    ):
        found = blocks.read(text, DEPTH, NODES)
        assert found is None or parsed(text) == ParsedYaml(*found, []), text


@pytest.mark.parametrize("key", KEYS)
def test_each_key_is_read_as_the_parser_reads_it(key: str) -> None:
    for text in (f"{key}: 1", f"{key}:", f"- {key}: 1\n- {key}:\n  - 2"):
        found = blocks.read(text, DEPTH, NODES)
        assert found is None or parsed(text) == ParsedYaml(*found, []), text


def test_a_file_as_export_writes_it_needs_no_parser() -> None:
    text = (
        "# a site\nsite: 1\nroles:\n  ntp:\n    barclamp: time\n    flags:\n    - library\nnodes:\n  n1.example.com:\n"
        "    available: true\n    addresses: []\n    macs:\n    - 52:54:00:00:00:01\n    labels: {}\n\n    noderoles:\n"
        "      ntp:\n        state: COMMITTED\n        parents:\n        - os@n1.example.com\n        once: '1'\n"
    )
    found = blocks.read(text, DEPTH, NODES)
    assert found is not None
    assert ParsedYaml(*found, []) == parsed(text) == plainyaml.parse(text)
    first, second = (blocks.read("a: []\nb: []\nc: {}\nd: {}", DEPTH, NODES) for _ in range(2))
    assert first is not None
    assert second is not None
    assert len({id(each) for found in (first, second) for each in dict(found[0]).values()}) == 8


def test_the_limits_are_those_of_the_parser() -> None:
    deep = "\n".join(" " * level + "a:" for level in range(DEPTH + 2))
    assert blocks.read(deep, DEPTH, NODES) is None
    assert "deeper" in plainyaml.parse(deep).faults[0].text
    assert blocks.read("a: 1\nb: 2", DEPTH, 2) is None
    assert plainyaml.parse_all("a: 1\nb: 2", nodes=2)[0].faults


def test_each_page_of_the_shipped_files_is_read_as_the_parser_reads_it() -> None:
    files = [*Path(__file__).parents[2].glob("etc/**/*.y*ml")]
    assert files
    for file in files:
        text = file.read_text()
        found = blocks.read(text, DEPTH, NODES)
        assert found is None or parsed(text) == ParsedYaml(*found, []), file
