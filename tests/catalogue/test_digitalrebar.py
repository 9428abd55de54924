"""Digital Rebar's own barclamps: every document is read, and loses only roles whose order would be lost in silence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nodepool_ocb.catalogue import barclamp
from tests.fixtures.corpora import CORPORA, needs

CORPUS = CORPORA / "digitalrebar"
pytestmark = needs("digitalrebar")


def declared(path: Path) -> list[str]:
    """The names of the roles of a document, as they are written."""
    return re.findall(
        r"^  - name: ['\"]?([\w.-]+)", path.read_text().partition("\nroles:")[2].partition("\nattribs:")[0], re.M
    )


def test_every_document_loads_and_loses_only_a_role_that_is_named_with_its_line() -> None:
    paths = sorted(CORPUS.glob("*.yml"))
    there = read = lost = 0
    for path in paths:
        found = barclamp.load([path])
        names = declared(path)
        refused = [name for name in names if name not in found.roles]
        assert len(found.problems) == len(refused), found.problems
        for name, problem in zip(refused, found.problems, strict=True):
            assert re.match(rf"{re.escape(str(path))}:\d+: roles\[{name}\]\.preceeds: ", problem), problem
            line = int(problem.split(":")[1])
            assert "preceeds" in path.read_text().splitlines()[line - 1]
        there, read, lost = there + len(names), read + len(names) - len(refused), lost + len(refused)
    print(f"{len(paths)} documents, {there} roles: {read} are read, {lost} left out")
    assert (len(paths), there, lost) == (6, 16, 6)


def test_the_documents_that_have_keys_of_later_versions_give_no_guess() -> None:
    found = barclamp.load([CORPUS])
    guesses = [text for text in (*found.problems, *found.warnings) if "unknown key" in text]
    assert guesses == []


@pytest.mark.parametrize("name", ["amt-discover", "bios-configure", "consul-master", "provisioner-os-install"])
def test_roles_beside_those_that_are_left_out_are_there(name: str) -> None:
    assert name in barclamp.load([CORPUS]).roles
