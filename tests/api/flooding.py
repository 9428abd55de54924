"""A flood of idle and dripping connections from a process of its own: ``python -m tests.api.flooding HOST:PORT IDLE DRIPPING``.

It prints a line when each client has begun, and ends with its standard input.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.http.flood import Flood


@contextmanager
def flooded(address: str, idle: int, dripping: int) -> Iterator[None]:
    """While the flood runs."""
    command = [sys.executable, "-m", "tests.api.flooding", address, str(idle), str(dripping)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "begun\n"
        yield
    finally:
        process.stdin.close()
        process.wait(60.0)
        process.stdout.close()


def main() -> None:
    """The process."""
    address, idle, dripping = sys.argv[1:]
    with Flood(address, int(idle), int(dripping)):
        print("begun", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
