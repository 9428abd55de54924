"""Drawings as pictures: what Graphviz makes of them, and what is said where it cannot."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from nodepool_ocb.cli.pictures import drawings
from nodepool_ocb.errors import Invalid, NotFound, TimedOut
from nodepool_ocb.views.graphs.graphviz import Box, GraphPicture, dot
from tests.fixtures.commands import Ocb

SVG: Final = "{http://www.w3.org/2000/svg}"
HOSTILE: Final = 'a "quoted" <b>&amp; \\N \\ ü'
BARCLAMP: Final = """\
barclamp: {name: drawn, version: 1}
roles:
  - {name: below, jig: noop, flags: [implicit]}
  - {name: above, jig: noop, flags: [implicit], requires: [below]}
"""
graphviz = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@graphviz
def test_every_character_of_a_name_appears_unchanged_in_the_picture() -> None:
    boxes = [Box(HOSTILE, HOSTILE, ("ACTIVE",), "ACTIVE", "white", HOSTILE), Box("b", "b\x1b[2J", (), "ACTIVE", "red")]
    found = texts(drawings.svg(dot("drawn", GraphPicture(boxes, [(HOSTILE, "b")]))))
    assert [each.replace("\xa0", " ") for each in sorted(found)] == sorted([HOSTILE, HOSTILE, "ACTIVE", "b\\x1b[2J"])


@graphviz
def test_messages_of_graphviz_are_shown() -> None:
    with pytest.raises(Invalid, match=r"dot cannot draw it: .*syntax error.*; draw less of it"):
        drawings.svg("digraph {")


def test_without_graphviz_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match="apt-get install graphviz, or take --format dot"):
        drawings.svg("digraph {}")


def test_a_drawing_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "dot").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(TimedOut, match=r"within 0\.2 seconds; draw less of it"):
        drawings.svg("digraph {}", timeout_seconds=0.2)


def test_what_a_program_says_that_calls_itself_dot_does_not_act_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "dot").write_text("#!/bin/sh\nprintf 'odd\\033[2J%01000d' 0 >&2; exit 1\n")
    (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(Invalid) as refused:
        drawings.svg("digraph {}")
    assert r"odd\x1b[2J" in str(refused.value)
    assert len(str(refused.value)) < 600


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("words", ["--format dot -o json", "--format json -o json --file graph.json"])
def test_two_forms_at_once_are_refused(ocb: Ocb, words: str) -> None:
    refused = ocb("graph", *words.split())
    assert (refused.exit_code, "--format json" in refused.stderr) == (2, True), refused.output


@graphviz
def test_a_graph_is_a_picture_in_a_file_and_one_of_many_noderoles_has_a_box_for_each_role(
    ocb: Ocb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "drawn.yml").write_text(BARCLAMP)
    for line in (
        f"barclamp import {tmp_path / 'drawn.yml'}",
        "node create n1.example.com",
        "node create n2.example.com",
        "node bind n1.example.com above",
        "node bind n2.example.com above",
    ):
        assert ocb(*line.split()).exit_code == 0
    file = tmp_path / "graph.svg"
    done = ocb("graph", "--format", "svg", "--file", str(file))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"wrote {file}\n")
    whole = texts(file.read_text())
    assert (whole.count("above"), whole.count("n1.example.com")) == (2, 1)
    monkeypatch.setattr("nodepool_ocb.views.graphs.graphviz.MOST", 3)
    done = ocb("graph", "--format", "svg")
    assert done.stderr == "4 noderoles: a box is a role; with --around it is a noderole\n"
    few = texts(done.stdout)
    assert (few.count("above"), few.count("2 PROPOSED"), "n1.example.com" in few) == (1, 2, False)
    around = ocb("graph", "--format", "svg", "--around", "above@n1.example.com")
    assert texts(around.stdout).count("n1.example.com") == 1
    for wrong in (("--format", "svg"), ("--file", str(file))):
        assert ocb("graph", *wrong, "-o", "json").exit_code == 2
    assert ocb("graph", "--file", str(tmp_path / "no" / "graph.dot")).stderr.startswith("error: ")
