"""Commands with ``layout: nodepool``: they read and write Nodepool's tree, and refuse those that it cannot hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.nodepool11 import Nodepool11Tree

HEX = "0123456789abcdef0123456789abcdef"
RECORD = {
    "state": "ready",
    "state_time": 1_700_000_000.0,
    "builder": "old.example.com",
    "builder_id": "b7",
    "formats": "raw",
}


@pytest.fixture
def config(zk_settings: ZooKeeperSettings, zk_session: Session, tmp_path: Path) -> Path:
    """A configuration with this layout; Nodepool has a build of jammy in the tree. ``zk_session`` has the native layout."""
    builds = "/nodepool/images/jammy/builds"
    zk_session.ensure(f"{builds}/{HEX}")
    zk_session._client.set(f"{builds}/{HEX}", json.dumps(RECORD).encode())
    file = tmp_path / "nodepool-ocb.yaml"
    file.write_text(yaml.safe_dump({"zookeeper": {"hosts": zk_settings.hosts}, "layout": "nodepool"}))
    return file


def run(config: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["--config", str(config), *words], prog_name="nodepool-ocb")


def test_a_build_of_nodepool_is_shown_marked_and_left_in_nodepools_words(config: Path, zk_session: Session) -> None:
    shown = run(config, "image", "show", "jammy", "-o", "json")
    assert [each["build"] for each in json.loads(shown.stdout)["builds"]] == [HEX]
    done = run(config, "image", "delete", "jammy", "--build", HEX, "--force", "--yes")
    assert done.exit_code == 0, done.stderr
    znode = zk_session.get(f"/nodepool/images/jammy/builds/{HEX}")
    assert znode is not None
    keys = json.loads(znode.data)
    assert (keys["state"], keys["formats"], keys["builder_id"]) == ("deleting", "raw", "b7")


def test_a_pause_is_nodepools_and_takes_no_end(config: Path, zk_session: Session) -> None:
    refused = run(config, "image", "pause", "jammy", "--for", "1h")
    assert refused.exit_code != 0
    assert "has no end" in refused.stderr
    assert zk_session.get("/nodepool/images/jammy/pause") is None
    assert run(config, "image", "pause", "jammy").exit_code == 0
    znode = zk_session.get("/nodepool/images/jammy/pause")
    assert znode is not None
    assert znode.data == b""


def test_an_import_is_refused_and_writes_nothing(config: Path, zk_session: Session, tmp_path: Path) -> None:
    document = tmp_path / "images.json"
    document.write_text('{"schema": 1, "images": {"noble": {"builds": {}}}}')
    refused = run(config, "image", "import", str(document))
    assert refused.exit_code != 0
    assert "nodepool import-image-data" in refused.stderr
    assert zk_session.children(Nodepool11Tree().stored("/nodepool/image")) == ["jammy"]
