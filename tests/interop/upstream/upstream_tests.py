"""Nodepool 11's own tests, one at a time, against our daemons: how to run one, and the list of the expected verdicts.

A test runs in a process of its own, in Nodepool's Python, after the shims took the place of Nodepool's daemons (``run_one.py``).
The tests come from the PyPI package. A file ``verdicts/MODULE.yaml`` has an entry for each test of a module:

    CLASS.TEST: passes
    CLASS.TEST: {inapplicable: REASON}      it tests something that this product does not have, or the inside of Nodepool
    CLASS.TEST: {fails: REASON}             it applies, and does not pass
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from nodepool_ocb.testing.zookeeper.guarded import Guarded
from tests.fixtures.upstream import ROOT

HERE: Final = Path(__file__).parent
MODULES: Final = ("test_builder", "test_commands", "test_launcher", "test_driver_static")
SECONDS: Final = 180.0  # after which a test is ended from outside
TEST_SECONDS: Final = 150  # after which it ends itself
PASSES: Final = "passes"
INAPPLICABLE: Final = "inapplicable"
FAILS: Final = "fails"


class Verdict(NamedTuple):
    """The expected outcome of one test."""

    kind: str  # PASSES, INAPPLICABLE or FAILS
    reason: str = ""


class Outcome(NamedTuple):
    """The outcome of a run."""

    passed: bool
    output: str


def verdicts(module: str) -> Mapping[str, Verdict]:
    """The expected verdicts of a module's tests, by ``CLASS.TEST``; none without a file."""
    file = HERE / f"verdicts/{module}.yaml"
    found = yaml.safe_load(file.read_text()) if file.exists() else {}
    return {
        name: Verdict(PASSES) if value == PASSES else Verdict(*next(iter(value.items())))
        for name, value in found.items()
    }


class UpstreamTests:
    """Nodepool's tests, on one ZooKeeper; each test makes a chroot of its own there."""

    def __init__(self, program: Path, guarded: Guarded) -> None:
        self._python = program / "python"
        found = subprocess.run(
            [self._python, "-c", "import nodepool; print(nodepool.__path__[0])"],
            capture_output=True,
            text=True,
            check=True,
        )
        self._folder = Path(found.stdout.strip()).parent
        ours = [ROOT, *(ROOT / name for name in ("annealer", "builder", "launcher")), sysconfig.get_path("purelib")]
        files = {"CA": "ca.pem", "CERT": "client.crt", "KEY": "client.key"}
        self._environment = {
            **os.environ,
            **{f"NODEPOOL_ZK_{name}": str(guarded.folder / file) for name, file in files.items()},
            "NODEPOOL_ZK_HOST": guarded.server.hosts,
            "OCB_PATHS": os.pathsep.join(map(str, ours)),
            "OCB_PYTHON": sys.executable,
            "OS_TEST_TIMEOUT": str(TEST_SECONDS),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._environment.pop("PYTHONPATH", None)

    def names(self, module: str) -> list[str]:
        """``CLASS.TEST`` of each test of a module."""
        done = self._run("--list", module)
        assert done.passed, done.output
        return [line.removeprefix(f"{module}.") for line in done.output.splitlines() if line.startswith(f"{module}.")]

    def run(self, module: str, name: str) -> Outcome:
        """Run one test."""
        return self._run(f"{module}.{name}")

    def _run(self, *words: str) -> Outcome:
        """A process group of its own, which is ended in every case."""
        process = subprocess.Popen(
            [self._python, HERE / "run_one.py", *words],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            output += f"\nit did not end within {SECONDS:g} s\n".encode()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a daemon of a test that could not stop it
        return Outcome(process.returncode == 0, output.decode(errors="replace"))
