"""``node create``: what a new node is, and many of them by a template; ``node move``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Ask = Callable[..., Any]
Ocb = Callable[..., Result]
N1 = "n1.example.com"


def test_many_nodes_get_the_lowest_free_numbers_in_their_names_and_addresses(ask: Ask, ocb: Ocb) -> None:
    ask("node", "create", "web-002.example.com")
    many = ("node", "create", "web-{:03}.example.com", "--address", "10.0.0.{}", "--address", "w{}.local:2222")
    assert ocb(*many, "--count", "2", "--dry-run").exit_code == 10
    ask(*many, "--count", "2")
    ask(*many, "--count", "1", "--first", "10")
    shown = {row["name"]: ask("node", "show", row["name"])["addresses"] for row in ask("node", "list")}
    assert shown == {
        "web-001.example.com": ["10.0.0.1", "w1.local:2222"],
        "web-002.example.com": ["web-002.example.com"],
        "web-003.example.com": ["10.0.0.3", "w3.local:2222"],
        "web-010.example.com": ["10.0.0.10", "w10.local:2222"],
    }


@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [
        ("web-{}.example.com", 2, "--count"),
        ("web.example.com --count 2", 2, "no place for the number"),
        ("web-{}.example.com --count 2 --address 10.0.0.1", 2, "10.0.0.1 has no place"),
        ("web-{0.__class__}.example.com --count 2", 2, "no place"),
        ("web-{} --count 2", 1, "fully qualified"),
    ],
)
def test_a_template_that_makes_no_names_is_refused(ocb: Ocb, line: str, exit_code: int, said: str) -> None:
    answer = ocb("node", "create", *line.split())
    assert (answer.exit_code, said in answer.stderr) == (exit_code, True), answer.stderr


def test_a_new_node_is_available_as_the_command_line_says_else_as_the_configuration_does(
    ask: Ask, tmp_path: Path
) -> None:
    said = tmp_path / "nodepool-ocb.yaml"
    said.write_text("nodes: {available: false}\n")
    ask("node", "create", "a.example.com")
    ask("node", "create", "b.example.com", "--config", str(said))
    ask("node", "create", "c.example.com", "--config", str(said), "--available")
    ask("node", "create", "d.example.com", "--not-available")
    shown = {row["name"][0]: (row["available"], row["alive"]) for row in ask("node", "list")}
    assert shown == {"a": (True, False), "b": (False, False), "c": (True, False), "d": (False, False)}


@pytest.mark.usefixtures("world")
def test_a_node_that_moves_leaves_its_noderoles_where_they_are_and_is_bound_in_the_new_deployment(
    ask: Ask, ocb: Ocb
) -> None:
    ask("deployment", "create", "shop")
    ask("node", "create", "n2.example.com", "--deployment", "lab")
    assert ocb("node", "move", N1, "shop", "--dry-run").exit_code == 10
    ask("node", "move", N1, "shop")
    ask("node", "move", "n2.example.com", "shop")
    assert ask("node", "show", N1)["deployment"] == "shop"
    assert ask("noderole", "show", f"top@{N1}")["deployment"] == "lab"
    ask("node", "bind", "n2.example.com", "top")
    assert ask("noderole", "show", "top@n2.example.com")["deployment"] == "shop"
    for deployment, said in (("lab", "still holds"), ("shop", "still holds")):
        refused = ocb("deployment", "delete", deployment, "--yes")
        assert (refused.exit_code, said in refused.stderr) == (4, True)
    assert ocb("node", "move", N1, "nowhere").exit_code == 3


def test_the_hints_that_the_seed_names_are_checked_and_others_are_free(ask: Ask, ocb: Ocb) -> None:
    mac, v4addr = "52:54:00:12:34:56", "192.0.2.7/24"
    for wrong in ("admin-mac=52:54", "admin-v4addr=192.0.2.700", "admin-mac=7"):
        answer = ocb("node", "create", N1, "--hint", wrong)
        assert (answer.exit_code, "write a" in answer.stderr) == (1, True)
    ask("node", "create", N1, "--hint", f"admin-mac={mac}", "--hint", "room=7")
    ask("node", "set", N1, f'hints.admin-v4addr="{v4addr}"')
    assert ask("node", "show", N1)["hints"] == {"admin-mac": mac, "room": 7, "admin-v4addr": v4addr}
    assert ocb("node", "set", N1, "hints.admin-mac=x").exit_code == 1
    ask("node", "set", N1, "hints.admin-mac=")
    assert "admin-mac" not in ask("node", "show", N1)["hints"]


def test_a_dry_run_of_many_changes_ends_with_how_many_there_are(ocb: Ocb, tmp_path: Path) -> None:
    table = tmp_path / "nodes.csv"
    table.write_text("fqdn,rack\n" + "".join(f"n{number}.example.com,r1\n" for number in range(20)))
    dry = ocb("node", "import", str(table), "--dry-run")
    assert dry.exit_code == 10
    assert dry.stderr.splitlines()[-1] == "in all: 20 nodes to create"
    assert "rack: r1" in dry.stdout
    assert "->" not in dry.stdout, "what is made was nothing before"
    table.write_text("fqdn,rack\nn1.example.com,r1\n")
    assert "in all" not in ocb("node", "import", str(table), "--dry-run").stderr


def test_tags_that_are_a_piece_of_a_list_are_refused_and_a_list_as_json_is_read(ask: Ask, ocb: Ocb) -> None:
    """``tags=["web","db"]`` made the tags ``["web"`` and ``"db"]``, which look like a list and mean no role."""
    refused = ocb("node", "create", N1, "--tag", '["web"')
    assert (refused.exit_code, "can be no tag; write A,B" in refused.output) == (2, True)
    ask("node", "create", N1)
    for text in ('["web', '"web","db"', "[web]", '["web", 1]'):
        refused = ocb("node", "set", N1, f"tags={text}")
        assert (refused.exit_code, "write A,B" in refused.output) == (1, True), refused.output
    for text, tags in (('["web", "db"]', ["web", "db"]), ("web,db", ["web", "db"]), ("[]", [])):
        assert ocb("node", "set", N1, f"tags={text}").exit_code == 0
        assert ask("node", "show", N1)["tags"] == tags
