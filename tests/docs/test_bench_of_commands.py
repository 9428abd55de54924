"""``tools/bench cli``: each checkout is measured with its own code, and a failing command is no figure."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from benchmarks import starting

    return starting


@pytest.fixture
def another(tmp_path: Path) -> Path:
    """A checkout with a command that calculates for long, and fails if it is told to."""
    command = tmp_path / "nodepool_ocb/cli/main.py"
    command.parent.mkdir(parents=True)
    for folder in (command.parent, command.parent.parent):
        (folder / "__init__.py").touch()
    command.write_text("import sys\ndef main():\n    sum(range(20_000_000))\n    sys.exit('fail' in sys.argv)\n")
    return tmp_path


@pytest.mark.long
def test_the_help_of_both_checkouts_is_measured_with_the_load(starting: ModuleType, another: Path) -> None:
    from benchmarks.figure import Plan

    figure = next(starting.measure_help(Plan(rounds=1, against=another)))
    assert figure.what == "--help: CPU"
    assert figure.ours > 20.0, "no interpreter starts in less"
    assert figure.ratio == figure.ours / figure.other
    assert str(another) in figure.beside
    assert "load" in figure.note


def test_the_code_of_the_other_checkout_runs(starting: ModuleType, another: Path) -> None:
    assert starting.cpu_ms(another, "--help", {}) > 100.0
    with pytest.raises(RuntimeError, match="fail of"):
        starting.cpu_ms(another, "fail", {})


def test_without_another_checkout_nothing_is_judged(starting: ModuleType) -> None:
    from benchmarks.figure import Plan

    assert next(starting.measure_help(Plan(rounds=1))).holds is None
