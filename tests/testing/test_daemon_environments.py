"""The environment of a daemon that a test starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.testing.processes import DaemonProcess

SAYS = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(os.environ['PYTHONPATH'])"


@pytest.mark.parametrize(("ours", "path"), [("/ours:/more", "/its:/ours:/more"), ("", "/its"), (None, "/its")])
def test_a_python_path_of_a_daemon_comes_before_that_of_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: str | None, path: str
) -> None:
    if ours is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", ours)
    said = tmp_path / "said"
    daemon = DaemonProcess(ZooKeeperSettings(hosts="127.0.0.1:1"), tmp_path, {}, ("-c", SAYS, str(said)))
    daemon.begin(PYTHONPATH="/its")
    assert daemon.wait() == 0
    assert said.read_text() == path
    assert os.environ.get("PYTHONPATH") == ours
