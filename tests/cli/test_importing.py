"""``barclamp check`` and ``barclamp import``: what is right is taken, what is wrong is named and ends the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Ocb = Callable[..., Result]
Ask = Callable[..., Any]

SLIP = """\
barclamp: {name: slip}
roles:
  - {name: good, jig: noop}
  - {name: bad, jig: noop, retries: -1}
  - {name: above, jig: noop, requires: [bad]}
"""


@pytest.fixture
def slip(tmp_path: Path) -> Path:
    file = tmp_path / "slip.yml"
    file.write_text(SLIP)
    return file


def test_an_import_takes_the_rest_names_what_is_left_out_with_its_line_and_ends_with_1(
    ocb: Ocb, ask: Ask, slip: Path
) -> None:
    answer = ocb("barclamp", "import", str(slip))
    assert answer.exit_code == 1
    assert [role["name"] for role in ask("role", "list")] == ["above", "good"]
    assert f"left out: {slip}:4: roles[bad].retries: must be at least 0, and is -1" in answer.stderr
    assert f"requires bad, which is left out ({slip}:4); until it is mended, this role cannot be bound" in answer.stderr
    assert answer.stderr.splitlines()[-1].startswith(
        "error: roles with a problem were left out, and everything else is"
    )
    assert ocb("node", "create", "n1.example.com").exit_code == 0
    assert "bad" in ocb("node", "bind", "n1.example.com", "above").stderr


def test_a_dry_run_of_an_import_says_what_would_be_left_out(ocb: Ocb, ask: Ask, slip: Path) -> None:
    answer = ocb("barclamp", "import", str(slip), "--dry-run", "-o", "json")
    assert answer.exit_code == 10
    assert len(json.loads(answer.stdout)["problems"]) == 1
    assert ask("role", "list") == []


def test_a_check_shows_what_would_be_imported_and_ends_with_the_refusal(ocb: Ocb, slip: Path) -> None:
    answer = ocb("barclamp", "check", str(slip))
    assert answer.exit_code == 1
    assert [line.split()[0] for line in answer.stdout.splitlines()] == ["NAME", "above", "good"]
    assert answer.output.splitlines()[-1].startswith(f"error: {slip}:4:")


def test_a_check_of_documents_without_a_right_role_shows_no_table(ocb: Ocb, slip: Path) -> None:
    slip.write_text("barclamp: {name: slip}\nroles: [{name: bad, jig: noop, retries: -1}]\n")
    answer = ocb("barclamp", "check", str(slip))
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.startswith("error: ")
    assert json.loads(ocb("barclamp", "check", str(slip), "-o", "json").stdout)["roles"] == []
    slip.write_text("barclamp: {name: slip}\n")
    empty = ocb("barclamp", "check", str(slip))
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "no role is in these documents\n")
