"""A process with a wrong wall clock leaves nothing on this host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from nodepool_ocb.testing.clocks import skewed

SAYS = "import os, time; print(os.getpid(), time.time(), flush=True); time.sleep(600)"


def of(pid: int) -> list[str]:
    """The files in shared memory that have its number."""
    return [file.name for file in Path("/dev/shm").iterdir() if file.name.endswith(f"_{pid}")]


def test_a_killed_process_with_a_wrong_clock_leaves_no_file_in_shared_memory() -> None:
    environment = {**os.environ, **skewed(3600.0)}
    with subprocess.Popen([sys.executable, "-c", SAYS], env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = child.stdout.readline().split()
        child.kill()
    assert int(said[0]) == child.pid
    assert of(child.pid) == []
