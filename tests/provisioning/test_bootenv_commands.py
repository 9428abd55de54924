"""``bootenv``: the shipped environments are there, others are created, and unknown ones are refused with a suggestion."""

from __future__ import annotations

from collections.abc import Callable

from nodepool_ocb.model.records import Json
from tests.fixtures.commands import Ocb


def test_boot_environments_are_created_changed_and_deleted(ocb: Ocb, ask: Callable[..., Json]) -> None:
    assert [row["name"] for row in ask("bootenv", "list")] == ["discovery", "install", "local", "rescue"]
    assert ocb("bootenv", "create", "firmware", "kind=rescue", "image=fw", "arguments=rack={rack}").exit_code == 0
    assert ocb("bootenv", "create", "firmware", "kind=local").exit_code == 4
    assert ocb("bootenv", "create", "firmware", "kind=rescue", "image=fw", "arguments=rack={rack}").exit_code == 0
    assert ocb("bootenv", "set", "firmware", "arguments=rack={rack} a={labels.a}").exit_code == 0
    shown = ask("bootenv", "show", "firmware")
    assert (shown["arguments"], shown["origin"]) == ("rack={rack} a={labels.a}", "own")
    assert shown["script"].startswith("#!ipxe")
    ocb("node", "create", "n1.example.com", "--bootenv", "firmware")
    refused = ocb("bootenv", "delete", "firmware")
    assert refused.exit_code == 4
    assert "is in use by n1.example.com; first: nodepool-ocb node set n1.example.com bootenv=local" in refused.stderr
    assert ocb("node", "set", "n1.example.com", "bootenv=local").exit_code == 0
    assert ocb("bootenv", "delete", "firmware").exit_code == 0
    assert len(ask("bootenv", "list")) == 4


def test_a_changed_shipped_environment_returns_to_its_shipped_form(ocb: Ocb, ask: Callable[..., Json]) -> None:
    before = ask("bootenv", "show", "install")
    assert ocb("bootenv", "set", "install", "arguments=console=ttyS0").exit_code == 0
    assert ask("bootenv", "show", "install")["origin"] == "changed"
    assert ocb("bootenv", "set", "install", "kind=rescue").exit_code == 4
    assert ocb("bootenv", "delete", "install").exit_code == 0
    assert ask("bootenv", "show", "install") == before
    assert ocb("bootenv", "delete", "install").exit_code == 4


def test_an_unknown_boot_environment_of_a_node_is_refused_with_a_suggestion(ocb: Ocb, ask: Callable[..., Json]) -> None:
    ocb("node", "create", "n1.example.com")
    refused = ocb("node", "set", "n1.example.com", "bootenv=instal")
    assert refused.exit_code == 1
    assert "boot environment instal does not exist; did you mean `install`?" in refused.stderr
    assert ask("bootenv", "show", "local")["nodes"] == ["n1.example.com"]
    assert ocb("node", "create", "n2.example.com", "--bootenv", "nowhere").exit_code == 1


def test_faults_of_a_boot_environment_are_named_together(ocb: Ocb) -> None:
    refused = ocb("bootenv", "create", "fw", "kind=rescue", "image=fw", "arguments={nod}", "description=a\nb")
    assert refused.exit_code == 1
    assert "{nod} is no value of a node; did you mean `node`?" in refused.stderr
    assert "description: write one line" in refused.stderr
    assert "write kind=KIND" in ocb("bootenv", "create", "fw", "image=x").stderr
    assert "has no field 'argments'; did you mean `arguments`?" in ocb("bootenv", "set", "install", "argments=x").stderr
