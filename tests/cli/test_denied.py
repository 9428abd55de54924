"""What every verb and a daemon say to a user who lacks a right."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.guarded import Guarded

#: Arguments that get every verb as far as ZooKeeper.
VERBS = [
    "status", "deployment list", "deployment show x", "deployment create x", "deployment commit x", "node list",
    "node create n1.example.com", "node show n1.example.com", "noderole list", "noderole retry --failed", "role list",
    "rollout list", "image list", "image show x", "image build x", "upload list", "daemon list", "lock list", "graph",
    "config check", "init", "acl init", "acl check", f"barclamp import {Path(__file__).parents[2] / 'etc/barclamps'}",
]  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[Guarded]:
    with Guarded(["ocb", "stranger"]) as made:
        with Session(replace(made.settings("ocb", "/c"), acl="open")) as session:
            session.ensure("")  # the chroot is everybody's
        with Session(made.settings("ocb", "/c")) as session:
            clusters.bootstrap(session)
            session.ensure(paths.IMAGES)
        yield made


def configured(folder: Path, settings: ZooKeeperSettings, **more: object) -> Path:
    """The configuration file of somebody."""
    file = folder / "nodepool-ocb.yaml"
    file.write_text(json.dumps({"zookeeper": msgspec.to_builtins(settings), **more}))
    return file


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_names_the_path_and_the_right(world: Guarded, tmp_path: Path, verb: str) -> None:
    file = configured(tmp_path, world.settings("stranger", "/c"))
    answer = CliRunner().invoke(cli, ["--config", str(file), *verb.split()], prog_name="nodepool-ocb")
    assert answer.exit_code == 8, answer.output
    assert "does not let this user" in answer.stderr
    assert "/ocb" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1, answer.stderr


def test_an_annealer_that_lacks_a_right_ends_with_its_sentence(world: Guarded, tmp_path: Path) -> None:
    file = configured(tmp_path, world.settings("stranger", "/c"), annealer={"log_dir": None})
    run = [sys.executable, "-m", "nodepool_ocb_annealer.main", "--config", str(file)]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=60.0, check=False)
    assert ended.returncode == 8, ended.stderr
    assert "does not let this user read /ocb" in ended.stderr
    assert "Traceback" not in ended.stderr
