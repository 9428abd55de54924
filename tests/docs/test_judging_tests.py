"""The tests that tools/mutants asks about a change of a file (tools/mutation/places.py)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def judging(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module; it belongs to no package of the product."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from mutation import places

    yield places
    for name in ("mutation.places", "mutation"):
        sys.modules.pop(name, None)


@pytest.fixture
def runs_at_import(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The question; its module belongs to no package of the product."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from mutation.imported import runs_at_import

    yield runs_at_import
    for name in ("mutation.imported", "mutation"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("source", "runs"),
    [
        ("def rules(): ...\nRULES: tuple = tuple(rules())", True),
        ("def rules(): ...\nRULES = {rule: 1 for rule in (*rules(), 2)}", True),
        ("def rules(): ...\ndef step(): return rules()", False),
        ("class A:\n    def rules(self): ...\n    def step(self): rules()", False),
        ("def rules(): ...\nRULES = rules", False),
    ],
)
def test_a_function_that_a_statement_of_its_module_calls_runs_while_it_is_imported(
    runs_at_import: Any, source: str, runs: bool
) -> None:
    assert runs_at_import(source, "rules") is runs


@pytest.mark.parametrize(
    "test",
    [
        "tests/operations/test_performing.py::test_a",
        "tests/cli/test_setting.py::test_b[1]",
        "tests/views/test_c.py::test_d",
    ],
)
def test_tests_of_commands_and_quick_tests_judge_operations(judging: Any, test: str) -> None:
    assert judging.may_judge(test, "nodepool_ocb/operations/nodes/binding.py")


@pytest.mark.parametrize(
    ("test", "file"),
    [
        ("tests/cli/test_setting.py::test_a", "nodepool_ocb/engine/run.py"),
        ("tests/operations/test_performing.py::test_a", "nodepool_ocb/store/acl.py"),
        ("tests/annealer/test_economy.py::test_a", "nodepool_ocb/operations/journal.py"),
    ],
)
def test_a_test_with_servers_judges_no_other_folder(judging: Any, test: str, file: str) -> None:
    assert judging.is_served(test)
    assert not judging.may_judge(test, file)


def test_a_quick_test_judges_every_folder(judging: Any) -> None:
    assert not judging.is_served("tests/engine/test_run.py::test_a")
    assert judging.may_judge("tests/engine/test_run.py::test_a", "nodepool_ocb/engine/run.py")
    assert judging.may_judge("tests/engine/test_run.py::test_a", "nodepool_ocb/operations/journal.py")


def test_a_folder_whose_name_begins_like_another_is_another_folder(judging: Any) -> None:
    assert not judging.is_served("tests/clients/test_a.py::test_b")
    assert not judging.may_judge("tests/cli/test_a.py::test_b", "nodepool_ocb/operations_of_others/a.py")


def test_operations_alone_are_judged_without_the_tests_of_other_folders(judging: Any) -> None:
    assert judging.places(ROOT, ["nodepool_ocb/operations"]) == (
        "tests/operations",
        "tests/cli",
        "nodepool_ocb/operations",
    )


def test_operations_beside_a_pure_folder_are_judged_by_quick_tests_too(judging: Any) -> None:
    asked = judging.places(ROOT, ["nodepool_ocb/engine", "nodepool_ocb/operations"])
    assert {"tests/engine", "tests/rollout", "tests/operations", "tests/cli"} <= {*asked}
    assert "tests/store" not in asked


def test_the_table_of_operations_judges_the_declarations_of_operations(judging: Any) -> None:
    test = "tests/operations/test_table_of_operations.py::test_a[NodeBind]"
    assert judging.judges_declarations(test, "nodepool_ocb/operations/nodes/binding.py")
    assert not judging.judges_declarations(test, "nodepool_ocb/engine/run/words.py")
    assert not judging.judges_declarations(
        "tests/operations/test_performing.py::test_a", "nodepool_ocb/operations/names.py"
    )
    assert all((ROOT / tests).is_file() for tests in judging.DECLARED.values())


def test_every_place_of_a_test_with_servers_is_there(judging: Any) -> None:
    assert [
        place for folder in judging.SERVED for place in (folder, *judging.SERVED[folder]) if not (ROOT / place).is_dir()
    ] == []
