"""``tasks check``: what is in a list, and everything that is wrong in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fixtures.commands import Ocb

NET = """\
- {id: deploy, type: stage}
- {id: net, type: shell, role: '*', required_for: [deploy], parameters: {cmd: ip link}}
"""
SITE = "- {id: site, type: shell, role: [web], requires: [net], required_for: [deploy], parameters: {cmd: 'true'}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("net", NET), ("site", SITE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tasks.yaml").write_text(text)
    return tmp_path


def test_a_check_counts_what_is_there_and_asks_no_zookeeper(
    ocb: Ocb, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODEPOOL_OCB_ZOOKEEPER", "127.0.0.1:1")
    answer = ocb("tasks", "check", str(folder))
    assert answer.exit_code == 0, answer.output
    assert [line.split() for line in answer.stdout.splitlines()[1:]] == [["shell", "2"], ["stage", "1"]]
    assert sorted(ocb("tasks", "check", str(folder), "-o", "name").stdout.split()) == ["deploy", "net", "site"]


def test_a_check_tells_every_fault_with_its_place(ocb: Ocb, folder: Path) -> None:
    (folder / "net/tasks.yaml").write_text(NET.replace("role", "rolle"))
    (folder / "site/tasks.yaml").write_text(SITE.replace("cmd: 'true'", "timeout: -1"))
    answer = ocb("tasks", "check", str(folder), "-o", "json")
    problems = json.loads(answer.stdout)["problems"]
    assert answer.exit_code == 1
    assert {problem.partition(": ")[0] for problem in problems} == {
        f"{folder}/net/tasks.yaml:2",
        f"{folder}/site/tasks.yaml:1",
    }
    assert [f"error: {problem}" for problem in problems] == answer.stderr.splitlines()
    assert any("did you mean `role`" in problem for problem in problems)


def test_what_fuel_let_pass_is_a_warning_for_those_who_ask(ocb: Ocb, folder: Path) -> None:
    (folder / "site/tasks.yaml").write_text(SITE.replace("}\n", ", role: [db]}\n"))
    assert ocb("tasks", "check", str(folder)).exit_code == 1
    lenient = ocb("tasks", "check", str(folder), "--lenient")
    assert lenient.exit_code == 0, lenient.output
    assert lenient.stderr.startswith(f"warning: {folder}/site/tasks.yaml:1")
