"""Folders that know their cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodepool_ocb.belonging import CLUSTER_FILE, belong
from nodepool_ocb.errors import NoCluster


def test_a_folder_belongs_to_the_first_cluster_that_it_served(tmp_path: Path) -> None:
    belong(tmp_path, "one")
    belong(tmp_path, "one")
    with pytest.raises(NoCluster, match="belongs to cluster one, and ZooKeeper has cluster two"):
        belong(tmp_path, "two")
    assert (tmp_path / CLUSTER_FILE).read_text() == "one\n"
    assert os.listdir(tmp_path) == [CLUSTER_FILE]
