"""Folders that know their cluster."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from nodepool_ocb.daemon.belonging import CLUSTER_FILE, belong, of_logs
from nodepool_ocb.daemon.preflight import unusable
from nodepool_ocb.errors import NoCluster


def test_a_folder_belongs_to_the_first_cluster_that_it_served(tmp_path: Path) -> None:
    belong(tmp_path, "one")
    belong(tmp_path, "one")
    with pytest.raises(NoCluster, match="belongs to cluster one, and ZooKeeper has cluster two"):
        belong(tmp_path, "two")
    assert (tmp_path / CLUSTER_FILE).read_text() == "one\n"
    assert os.listdir(tmp_path) == [CLUSTER_FILE]


def test_daemons_that_start_at_the_same_time_share_a_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    daemons = 8
    for number in range(50):
        folder, together = tmp_path / str(number), Barrier(daemons)

        def start(folder: Path = folder, together: Barrier = together) -> None:
            together.wait()
            of_logs(str(folder), "one")

        with ThreadPoolExecutor(daemons) as pool:
            for started in [pool.submit(start) for _ in range(daemons)]:
                started.result()
        assert os.listdir(folder) == [CLUSTER_FILE]
    assert not caplog.records, "each of them can keep logs there"


def test_a_folder_of_logs_that_cannot_be_written_to_is_named_with_its_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # as on a disk that is full, the error names no file
    try:
        of_logs(str(tmp_path), "one")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (said,) = caplog.messages
    assert said == f"annealer.log_dir: {tmp_path}: File too large; no logs can be kept there"


def test_a_file_system_that_takes_no_files_is_said_not_to_be_full() -> None:
    assert unusable(Path("/proc/nope")) == (
        "the file system of /proc has no room for files, so /proc/nope cannot be made"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("ro", "the file system of {0} is read-only, so {0}/runs cannot be made"),
        ("size=4k", "the file system of {0} is full, so {0}/runs cannot be made"),
    ],
)
def test_a_file_system_that_takes_nothing_is_told_by_what_it_is(tmp_path: Path, options: str, sentence: str) -> None:
    asked = "from nodepool_ocb.daemon.preflight import unusable; import pathlib; print(unusable(pathlib.Path('runs').absolute()))"
    mounted = f'mount -t tmpfs -o {options} none "$0" && cd "$0" || exit 77; head -c 9999 /dev/zero >x 2>&-; exec "$@"'
    said = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, tmp_path, sys.executable, "-c", asked],
        capture_output=True,
        text=True,
        check=False,
    )
    if said.returncode == 77:
        pytest.skip(f"nothing can be mounted here: {said.stderr}")
    assert said.stdout.strip() == sentence.format(tmp_path), said.stderr
