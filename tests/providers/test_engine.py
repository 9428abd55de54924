"""The private container engine leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from nodepool_ocb.testing.engine import Engine
from tests.providers.sites import shell_tar

START = """
import signal
from nodepool_ocb.testing.engine import Engine
engine = Engine().__enter__()
print(engine.directory, flush=True)
signal.pause()
"""


def processes(folder: Path) -> list[int]:
    """Those that were started with this folder in their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue  # it ended meanwhile
    return found


def test_an_engine_ends_with_its_containers_mounts_and_folder(engine: Engine, tmp_path: Path) -> None:
    assert processes(engine.directory)
    with Engine() as another:
        image = another.run("import", str(shell_tar(tmp_path / "image.tar"))).strip()
        another.run("run", "--detach", "--network=none", image, "/bin/sh", "-c", "while :; do :; done", str(tmp_path))
        assert processes(tmp_path)
    assert processes(another.directory) == processes(tmp_path) == []
    assert not another.directory.exists()
    assert str(another.directory) not in Path("/proc/self/mounts").read_text()
    assert [*Path("/sys/fs/cgroup").glob(f"**/{another.cgroup}")] == []


def test_an_engine_dies_with_whoever_started_it(engine: Engine, until: Callable[..., None]) -> None:  # noqa: ARG001
    with subprocess.Popen([sys.executable, "-c", START], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        folder = Path(starter.stdout.readline().strip())
        assert processes(folder)
        os.kill(starter.pid, signal.SIGKILL)
    until(lambda: not processes(folder))
    subprocess.run(["rm", "-r", folder], check=True)
