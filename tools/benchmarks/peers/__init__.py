"""The peers that are no part of the product: scripts that run in .venv-bench, JSON in, one line of JSON out."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

ROOT: Final = Path(__file__).parents[3]
REQUIREMENTS: Final = Path(__file__).parents[1] / "requirements.txt"
OF_NODEPOOL: Final = Path(__file__).parents[1] / "nodepool-requirements.txt"
MISSING: Final = "the peer could not be installed into .venv-bench"
TIMEOUT_SECONDS: Final = 600.0


def ask(peer: str, task: dict[str, Any]) -> dict[str, Any] | None:
    """Have a peer do a task; None where it could not be installed. Raises RuntimeError where it fails."""
    environment = installed()
    if environment is None:
        return None
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [environment / "bin/python", Path(__file__).with_name(f"{peer}.py")],
        input=msgspec.json.encode(task), capture_output=True, timeout=TIMEOUT_SECONDS, check=False,
        env={**os.environ, "PATH": path, "PYTHONPATH": ""},
    )  # fmt: skip
    if done.returncode != 0 or not done.stdout.strip():
        raise RuntimeError(f"{peer} failed:\n{done.stderr.decode(errors='replace')[-3000:]}")
    answer: dict[str, Any] = msgspec.json.decode(done.stdout.splitlines()[-1])
    return answer


def installed() -> Path | None:
    """.venv-bench with the peers in it; None where they cannot be installed."""
    return environment(".venv-bench", REQUIREMENTS)


@functools.cache
def environment(name: str, requirements: Path) -> Path | None:
    """An environment of this name at the root with these packages, made where it is missing or old; None where that fails."""
    place = ROOT / name
    stamp, wanted = place / "installed", requirements.read_text()
    if stamp.is_file() and stamp.read_text() == wanted:
        return place
    print(f"tools/bench: installing the peers into {name}", file=sys.stderr)
    commands: list[list[str | Path]] = [
        [sys.executable, "-m", "venv", place],
        [place / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements],
    ]
    for command in commands:
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
            return None
    (place / ".gitignore").write_text("*\n")
    stamp.write_text(wanted)
    return place
