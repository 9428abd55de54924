"""``.ci/run`` repeats few failed tests once, and fails for a test that fails twice, for many failures and for a failed check."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
#: It plays pytest: each call takes a line of ``runs``, a status and a number of failed tests, and writes pytest's cache.
PLAYED: Final = """#!/usr/bin/env bash
cd "$(dirname "$0")/.." || exit
read -r status failed < runs
sed -i 1d runs
echo "$*" >> calls
mkdir -p .pytest_cache/v/cache
{ echo '{'; for ((each = 0; each < failed; each++)); do echo "  \\"tests/test_a.py::test_$each\\": true,"; done; echo '}'; } \\
    > .pytest_cache/v/cache/lastfailed
exit "$status"
"""


@pytest.mark.parametrize(
    ("check", "runs", "status", "calls"),
    [
        pytest.param(0, ["0 0"], 0, 1, id="all pass"),
        pytest.param(0, ["1 3", "0 0"], 0, 2, id="three fail once"),
        pytest.param(0, ["1 1", "1 1"], 1, 2, id="one fails twice"),
        pytest.param(0, ["1 4"], 1, 1, id="four fail"),
        pytest.param(0, ["2 0"], 1, 1, id="the run breaks off"),
        pytest.param(0, ["124 1"], 1, 1, id="the run hangs"),
        pytest.param(1, ["0 0"], 1, 1, id="a check fails"),
        pytest.param(1, ["1 1", "0 0"], 1, 2, id="a check fails, and a test once"),
    ],
)
def test_ci_repeats_few_failed_tests_once(tmp_path: Path, check: int, runs: list[str], status: int, calls: int) -> None:
    for folder in (".ci", "tools"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    for name, text in (("check", f"#!/bin/sh\nexit {check}\n"), ("test", PLAYED)):
        (tmp_path / "tools" / name).write_text(text)
        (tmp_path / "tools" / name).chmod(0o755)
    (tmp_path / "runs").write_text("".join(f"{each}\n" for each in runs))
    done = subprocess.run(["bash", tmp_path / ".ci/run"], capture_output=True, text=True, timeout=60.0, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    made = (tmp_path / "calls").read_text().splitlines()
    assert len(made) == calls
    assert made[1:] == ["--last-failed --last-failed-no-failures none"] * (calls - 1)
    assert ("UNSTABLE" in done.stdout) is (calls == 2)
