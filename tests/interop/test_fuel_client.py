"""Fuel's command line, unmodified, at a server of the API: it logs in, and moves task lists of Fuel 9.2."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from nodepool_ocb.operations.tasks import files
from nodepool_ocb.operations.tasks.storing import TasksUpload
from tests.api.served import ServedApi
from tests.fixtures.corpora import CORPORA, needs

pytestmark = [pytest.mark.long, needs("fuel/9.2/deployment")]

SECONDS: Final = 120  # for one command


class FuelClient:
    """The command of a person with a token."""

    def __init__(self, program: Path, api: ServedApi, folder: Path) -> None:
        self._program, self.folder = program, folder
        host, _, port = api.address.removeprefix("http://").partition(":")
        self._environment = {
            **os.environ,
            "HOME": str(folder),
            "SERVER_ADDRESS": host,
            "SERVER_PORT": port,
            "OS_USERNAME": "ann",
            "OS_PASSWORD": api.token,
            "PYTHONWARNINGS": "ignore",
        }

    def run(self, *words: str, password: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = self._environment | ({} if password is None else {"OS_PASSWORD": password})
        return subprocess.run(
            [self._program / "fuel", *words, "--dir", str(self.folder)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def tasks_of_cluster(self, number: int, **part: str) -> list[str]:
        """The ids that the client's library gets."""
        program = (
            "import json; from fuelclient.objects import Environment;"
            f" print(json.dumps([each['id'] for each in Environment({number}).get_deployment_tasks(**{part!r})]))"
        )
        command = [self._program / "python", "-c", program]
        done = subprocess.run(command, env=self._environment, capture_output=True, timeout=SECONDS, check=True)
        found: list[str] = json.loads(done.stdout)
        return found

    def list_of(self, name: str) -> list[Any]:
        found: list[Any] = yaml.safe_load((self.folder / name / "deployment_tasks.yaml").read_text())
        return found


@pytest.fixture
def fuel(fuelclient: Path, api: ServedApi, tmp_path: Path) -> FuelClient:
    for name in ("1",):
        api.ask("PUT", f"/v1/deployments/{name}", {})
    found = files.read([CORPORA / "fuel/9.2/deployment"])
    api.direct.perform(TasksUpload(release="2", files=found, lenient=True, compat_prefix=True))
    return FuelClient(fuelclient, api, tmp_path)


def by_id(entries: list[Any]) -> dict[str, Any]:
    return {each["id"]: each for each in entries}


def test_fuels_command_downloads_and_uploads_the_lists_of_releases_and_clusters(
    fuel: FuelClient, api: ServedApi
) -> None:
    done = fuel.run("rel", "--rel", "2", "--deployment-tasks", "--download")
    assert done.returncode == 0, done.stderr
    texts = files.read([CORPORA / "fuel/9.2/deployment"]).texts
    written = [entry for text in texts.values() for entry in yaml.safe_load(text) or ()]
    assert len(written) > 100
    found = by_id(fuel.list_of("release_2"))
    assert found == by_id(written)

    (fuel.folder / "cluster_1").mkdir()
    (fuel.folder / "release_2/deployment_tasks.yaml").rename(fuel.folder / "cluster_1/deployment_tasks.yaml")
    done = fuel.run("env", "--env", "1", "--deployment-tasks", "--upload")
    assert done.returncode == 0, done.stderr
    answer = api.client.get("/api/v1/clusters/1/deployment_tasks", headers={"X-Auth-Token": api.token})
    assert by_id(answer.json()) == found

    part = fuel.tasks_of_cluster(1, end="netconfig")
    assert "netconfig" in part
    assert len(part) < len(found)


def test_fuels_command_prints_the_reason_of_a_refusal(fuel: FuelClient) -> None:
    done = fuel.run("rel", "--rel", "9", "--deployment-tasks", "--download")
    assert done.returncode != 0
    assert "release 9 has no task list" in done.stderr
    done = fuel.run("rel", "--rel", "2", "--deployment-tasks", "--download", password="admin")
    assert done.returncode != 0
    assert not (fuel.folder / "release_2/deployment_tasks.yaml").exists()
