"""The command line and real builders: a build that is asked for, its log from end to end, and its deletion."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodepool_ocb.config import BuilderSettings, Settings
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.images import BuildState
from nodepool_ocb_builder.configuration import Formats, load
from tests.builder.fleet_of_builders import BuilderFleet
from tests.cli.background_command import COMMAND


@contextmanager
def ocb(hosts: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command, under way."""
    command = [*COMMAND, "--zookeeper", hosts, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.fixture
def hosts(builders: BuilderFleet, chroot: str) -> str:
    return builders.server.hosts + chroot


def test_a_builder_without_its_file_says_where_to_name_it(tmp_path: Path) -> None:
    gone = tmp_path / "nodepool.yaml"
    with pytest.raises(Invalid, match=rf"{gone}: is not there; .* name another in builder\.nodepool"):
        load(Settings(builder=BuilderSettings(nodepool=str(gone))), {}, Formats())


def test_a_build_is_asked_for_and_awaited(builders: BuilderFleet, hosts: str) -> None:
    builders.builder(builders.image("jammy", 0.3)).start()
    (first,) = builders.until_ready("jammy")
    with ocb(hosts, "image", "build", "jammy", "--wait", "--timeout", "30", "-o", "json") as waiting:
        out, err = waiting.communicate(timeout=60)
    document = json.loads(out)
    assert (waiting.returncode, document["outcome"]) == (0, "ready"), err
    assert document["build"]["build"] > first.id


def test_a_build_that_fails_ends_the_wait_with_its_log(builders: BuilderFleet, hosts: str) -> None:
    builders.builder(builders.image("jammy")).start()
    builders.until_ready("jammy")
    builders.fail.touch()
    with ocb(hosts, "image", "build", "jammy", "--wait", "--timeout", "30") as waiting:
        _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 6
    assert "| it fails, as it was asked to" in err


def test_a_log_is_followed_from_the_builder_that_has_it_until_the_build_ends(
    builders: BuilderFleet, hosts: str
) -> None:
    builders.builder(builders.image("jammy", 2.0)).start()
    builders.until(lambda: builders.builds("jammy", BuildState.BUILDING), "it is being built")
    with ocb(hosts, "image", "log", "jammy", "-f") as following:
        out, err = following.communicate(timeout=60)
    assert following.returncode == 0
    assert out.startswith("building jammy\n")
    assert out.splitlines()[-1].startswith("-- ended: exit status 0")
    assert "from https://127.0.0.1:" in err
    assert builders.view("jammy").holder is None


def test_a_build_that_is_deleted_while_it_is_made_is_stopped(builders: BuilderFleet, hosts: str) -> None:
    builders.builder(builders.image("jammy", 600.0)).start()
    builders.until(lambda: builders.history(), "it is being built")
    (build,) = builders.builds("jammy")
    with ocb(hosts, "image", "pause", "jammy") as pausing:
        assert pausing.wait(60) == 0
    with ocb(hosts, "image", "delete", "jammy", "--build", build.id, "--yes") as deleting:
        assert deleting.wait(60) == 0
    builders.until(lambda: not builders.builds("jammy"), "the record is gone")
    assert builders.history("end") == []
