"""docs/seeds.md: every statement of the seeds has a proof that exists, or names the part that will bring it."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.stories import reading

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "seeds.md"
PARTS = ("task lists", "the provisioner", "the launcher", "the HTTP API")
SEEDS = ("000", "001", "002", "003", "004")


class Statement(NamedTuple):
    """A line of the page."""

    seed: str
    number: int
    text: str
    where: str
    proof: str


def cells() -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines() if "|" in line
    ]


def statements() -> list[Statement]:
    found = []
    for first, *others in cells():
        if seed := re.fullmatch(r"(\d{3})\.(\d+)", first):
            found.append(Statement(seed[1], int(seed[2]), *others))
    return found


STATEMENTS = statements()


@functools.cache
def named_in(file: str) -> set[str]:
    """The tests that a file has, none where it is none."""
    path = ROOT / file
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}


def lacking(proof: str) -> list[str]:
    """What a proof names that does not exist; a proof that names nothing lacks itself."""
    word, _, rest = proof.partition(": ")
    if proof.removeprefix("comes with ") in PARTS or (word == "not yet" and rest):
        return []
    named = re.findall(r"`([^`]+)`", proof)
    if not named or "<br>".join(f"`{each}`" for each in named) != proof:
        return [proof]
    return [each for each in named if not exists(each)]


def exists(name: str) -> bool:
    """Whether ``FILE::TEST`` or ``FILE: TITLE`` of a story is there."""
    file, _, test = name.partition("::")
    if test:
        return test in named_in(file)
    file, _, title = name.partition(": ")
    folder, _, story = file.rpartition("/")
    there = folder == "tests/stories" and (ROOT / file).is_file()
    return there and title in [each.title for each in reading.stories(story)]


def test_every_statement_of_a_seed_has_a_proof_that_exists_or_names_what_it_comes_with() -> None:
    assert {f"{each.seed}.{each.number}": found for each in STATEMENTS if (found := lacking(each.proof))} == {}


@pytest.mark.parametrize(
    "proof",
    [
        "", "some day", "comes with luck", "not yet", "`tests/docs/test_seeds.py`", "`tests/docs/test_seeds.py::test_gone`",
        "`tests/docs/gone.py::test_a`", "`tests/stories/binding.story: No such story`",
        "`tests/docs/test_seeds.py::test_every_seed_is_there_line_by_line` and more",
    ],
)  # fmt: skip
def test_a_proof_that_does_not_exist_is_noticed(proof: str) -> None:
    assert lacking(proof) != []


def test_every_seed_is_there_line_by_line() -> None:
    for seed in SEEDS:
        numbers = [each.number for each in STATEMENTS if each.seed == seed]
        assert numbers, seed
        assert numbers == list(range(1, len(numbers) + 1)), seed
    assert len({each.text for each in STATEMENTS if not each.proof.startswith("comes")}) > 150


def test_every_module_and_decision_that_the_page_names_exists() -> None:
    for each in STATEMENTS:
        for name in re.findall(r"`([^`]+)`", each.where):
            assert (ROOT / name).exists(), f"{each.seed}.{each.number}: {name}"
        for page in re.findall(r"\]\(([^)]+)\)", each.where):
            assert (PAGE.parent / page).is_file(), f"{each.seed}.{each.number}: {page}"
        if each.where == "–":
            assert each.proof.startswith("comes with "), f"{each.seed}.{each.number} stands nowhere"


def kind(proof: str) -> str:
    return "comes" if proof.startswith("comes") else "not yet" if proof.startswith("not yet") else "proven"


def test_the_page_counts_its_statements() -> None:
    counted = {first: [int(cell) for cell in others[1:]] for first, *others in cells() if first in SEEDS}
    for seed in SEEDS:
        kinds = [kind(each.proof) for each in STATEMENTS if each.seed == seed]
        assert counted[seed] == [len(kinds), *map(kinds.count, ("proven", "comes", "not yet"))], seed
