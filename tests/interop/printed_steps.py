"""The numbered steps of a section of docs/from-nodepool.md, carried out as they are printed.

Commands in blocks and between backquotes run in a shell of a home directory. ``systemctl`` is the test's: it calls a function for
each verb and unit.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

PAGE: Final = Path(__file__).parents[2] / "docs/from-nodepool.md"
SECONDS: Final = 300.0
COMMAND: Final = re.compile(r"^((?:systemctl|nodepool|nodepool-ocb) .*)$|`((?:systemctl|nodepool|nodepool-ocb) [^`]+)`")


def section(heading: str) -> str:
    """The text below a heading of the page."""
    found = re.search(rf"^### {re.escape(heading)}\n(.*?)(?=^##)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{PAGE} has no section {heading}"
    return found[1]


def document(heading: str) -> dict[str, Any]:
    """The configuration that the section prints."""
    (text,) = re.findall(r"^ *```yaml\n(.*?)^ *```$", section(heading), re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def commands(heading: str) -> list[str]:
    """The commands of the section, in their order."""
    lines = [line.strip() for line in section(heading).partition("\n\nNodes in")[0].splitlines()]
    return [first or second for line in lines for first, second in COMMAND.findall(line)]


class PrintedSteps:
    """Runs sections: in the home of a person with our configuration, and with Nodepool's file."""

    def __init__(
        self, home: Path, config: Path, nodepool: Path, file: Path, units: Mapping[str, Callable[[], object]]
    ) -> None:
        own, programs = home / ".config/nodepool-ocb", home / "bin"
        own.mkdir(parents=True)
        programs.mkdir()
        (own / "nodepool-ocb.yaml").symlink_to(config)
        (programs / "nodepool").write_text(f'#!/bin/sh\nexec {nodepool}/nodepool -c {file} "$@"\n')
        (programs / "nodepool").chmod(0o755)
        path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {**os.environ, "HOME": str(home), "PATH": path}
        self._units, self._file = units, file

    def run(self, heading: str) -> dict[str, str]:
        """Carry out a section; gives the output of each command."""
        return {command: self.command(command) for command in commands(heading)}

    def command(self, command: str) -> str:
        """The output of one command; FILE in it is Nodepool's file."""
        if command.startswith("systemctl "):
            self._units[command.removeprefix("systemctl ")]()
            return ""
        done = subprocess.run(
            ["sh", "-ec", command.replace("FILE", str(self._file))],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
        return done.stdout
