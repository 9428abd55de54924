"""Folders that know their cluster."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from nodepool_ocb.belonging import CLUSTER_FILE, belong, of_logs
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
