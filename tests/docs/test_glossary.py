"""docs/glossary.md has the words of the code, and only those; words that were given up do not come back."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.cli.main import NOUNS
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.model.records import DeploymentState, State
from nodepool_ocb.rollout.records import GroupState, NodeState, RolloutState

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/glossary.md"
PACKAGES: Final = (
    "nodepool_ocb",
    "annealer/nodepool_ocb_annealer",
    "builder/nodepool_ocb_builder",
    "launcher/nodepool_ocb_launcher",
)
ENUMS: Final = (State, DeploymentState, Event, NodeState, GroupState, RolloutState, BuildState, UploadState)
#: The rooms, and the modules of ports, every public class of which is a word.
ROOMS: Final = (
    "model",
    "engine",
    "rollout",
    "tasks",
    "images",
    "pool",
    "daemon",
    "jigs/jig.py",
    "providers/machines.py",
    "providers/provider.py",
    "providers/stamp.py",
)
#: Words that were given up, since each had several meanings or none; docs and code have another for each.
GIVEN_UP: Final = frozenset(
    """
    Hold Held Holding Holder Crew Patience Shelf Site Standing Rollouts Knot Told Place Yard Staged Disturbed
    hindrance heeded forgiven steering stepping telling insist told _told _telling _hope _bury
    yard staged disturbed END
    """.split()  # noqa: SIM905 - a list of forty quoted words is no easier to read
)


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py")) if (ROOT / folder).is_dir() else [ROOT / folder]


def classes(files: Iterable[Path]) -> dict[str, str]:
    """The public classes, each with the file that has it."""
    return {
        each.name: str(file.relative_to(ROOT))
        for file in files
        for each in tree(file).body
        if isinstance(each, ast.ClassDef) and not each.name.startswith("_")
    }


def folders() -> set[str]:
    inits = [init for package in PACKAGES for init in (ROOT / package).rglob("__init__.py")]
    return {init.parent.name for init in inits if str(init.parent.relative_to(ROOT)) not in PACKAGES}


def words() -> dict[str, str]:
    """What the glossary must have, each with where it comes from."""
    found = classes(file for room in ROOMS for file in sources(f"nodepool_ocb/{room}"))
    found |= {member.name: f"a member of {enum.__name__}" for enum in ENUMS for member in enum}
    found |= dict.fromkeys(NOUNS, "a noun of the command line")
    return found | dict.fromkeys(folders(), "a folder")


def tables() -> list[list[str]]:
    """The first cells of each table."""
    sections = PAGE.read_text().split("\n## ")[1:]
    return [re.findall(r"^\| (.+?) \|", section, re.MULTILINE)[2:] for section in sections]


def named(cells: Iterable[str]) -> set[str]:
    """The names in code that a cell has."""
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_word_of_the_code_is_in_the_glossary() -> None:
    entries = named(cell for cells in tables() for cell in cells)
    missing = {word: where for word, where in words().items() if word not in entries}
    assert not missing, "add a line for each to docs/glossary.md"


def test_every_entry_that_names_code_exists() -> None:
    entries = named(cell for cells in tables() for cell in cells)
    assert entries <= words().keys(), "take these out of docs/glossary.md, or correct their names"


@pytest.mark.parametrize("cells", tables(), ids=lambda cells: cells[0])
def test_the_entries_of_a_table_are_in_the_order_of_the_alphabet(cells: list[str]) -> None:
    plain = [cell.replace("`", "") for cell in cells]
    assert plain == sorted(plain, key=str.lower)
    assert len(set(plain)) == len(plain)


def test_no_word_that_was_given_up_is_a_name_in_the_code() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{token.start[0]}: {token.string}"
        for file in sources("nodepool_ocb", "annealer", "builder", "launcher", "tests", "tools")
        for token in names(file)
        if token.string in GIVEN_UP
    ]
    assert not found, "house words: call it what it is"


def names(file: Path) -> Iterator[tokenize.TokenInfo]:
    """The names of a file in which one of those words stands, if only in a text."""
    if GIVEN_UP.isdisjoint(re.findall(r"\w+", file.read_text())):
        return
    with tokenize.open(file) as text:
        yield from (each for each in tokenize.generate_tokens(text.readline) if each.type == tokenize.NAME)
