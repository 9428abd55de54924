"""Each guard of the machine's runner is needed: without it the test fails that guards.yaml names."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from nodepool_ocb.jigs.ssh import protocol
from tests.jigs.careless import guards

HERE = Path(__file__).parent
FILES = sorted({each.test.partition("::")[0] for each in guards() if each.test})


@cache
def functions(file: str) -> set[str]:
    return {each.name for each in ast.parse((HERE / file).read_text()).body if isinstance(each, ast.FunctionDef)}


def test_each_guard_stands_once_in_the_runner_and_has_a_test_or_a_reason() -> None:
    runner = Path(protocol.__file__).with_name("runner.sh").read_text()
    for each in guards():
        assert runner.count(each.old) == 1, f"{each.guard}: the runner has moved on: correct guards.yaml"
        assert bool(each.test) != bool(each.reason), each.guard
        if each.test:
            file, _, function = each.function.partition("::")
            assert function in functions(file), each.test
    assert len({each.guard for each in guards()}) == len(guards())


@pytest.mark.long
@pytest.mark.parametrize("file", FILES)
def test_without_a_guard_its_test_fails(file: str) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "tests.jigs.careless", "--long", "-n", "0", "-q"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", str(HERE / file)],
        cwd=HERE.parents[1], capture_output=True, text=True, check=False, timeout=3600.0,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
