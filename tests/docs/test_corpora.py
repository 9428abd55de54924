"""What a run of the tests says of corpora that are not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LACKS = "tests/engine/test_binding_corpus.py::test_the_graph_of_the_roles_has_no_circle"
TAKES_MINUTES = "tests/docs/test_systemd.py"


def run(corpora: Path, *tests: str) -> str:
    """What a run of these tests says that looks for its corpora there."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *tests],
        cwd=ROOT, env={**os.environ, "OCB_CORPORA": str(corpora)}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_run_says_how_many_tests_lacked_their_corpora_and_where_these_are_looked_for(tmp_path: Path) -> None:
    said = run(tmp_path, LACKS, TAKES_MINUTES)
    assert f"1 TESTS SKIPPED for want of corpora (opencrowbar/barclamps): looked for in {tmp_path}\n" in said


@pytest.mark.long
def test_a_run_that_skips_other_tests_says_nothing_of_corpora(tmp_path: Path) -> None:
    assert "corpora" not in run(tmp_path, TAKES_MINUTES)
