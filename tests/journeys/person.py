"""Somebody at the command line: the product's commands, in a process that a test asks for one after the other.

    python person.py HOSTS <<< '["node", "delete", "m0.farm.example.com", "--yes"]'

answers each line with its exit code and what was said. A process of its own, for commands change the process that they run in.
"""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Final, Self

from click.testing import CliRunner

from nodepool_ocb.cli.main import cli

PROGRAM: Final = "nodepool-ocb"


class Person:
    """A context manager; not for two threads at a time."""

    def __init__(self, hosts: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, hosts], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.said = ""  # by the newest command

    def does(self, *words: str) -> int:
        """One command; gives its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        code, self.said = json.loads(self._process.stdout.readline())
        return int(code)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def main() -> None:
    hosts = ("--zookeeper", sys.argv[1])
    for line in sys.stdin:
        result = CliRunner().invoke(cli, [*hosts, *json.loads(line)], prog_name=PROGRAM)
        print(json.dumps([result.exit_code, result.output]), flush=True)


if __name__ == "__main__":
    main()
