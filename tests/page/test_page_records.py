"""Views of records that real operations and a real annealer made: a rollout, a run of tasks, a request, pauses."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.operations.rollouts.reading import RolloutList
from nodepool_ocb.testing.processes import DaemonProcess
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.served import ServedApi
from tests.fixtures.chroots import fresh
from tests.page import axe
from tests.page.browser import Browser, why_not
from tests.remote.verbs import FILES

pytestmark = [pytest.mark.long, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

CANARY = FILES["strategy.yaml"].replace(
    "critical: true,", "critical: true, depends_on: [], batches: [{nodes: 1, pause: true}],"
)


class LivingCluster:
    """A server and an annealer; ``ocb`` is the command line."""

    def __init__(self, settings: ZooKeeperSettings, folder: Path) -> None:
        self.api = ServedApi(settings, folder / "api")
        self.settings, self.folder = settings, folder
        self.annealer = DaemonProcess(settings, folder / "annealer")

    def fill(self) -> None:
        folder = self.folder
        for name, text in {**FILES, "canary.yaml": CANARY}.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.ocb(f"barclamp import {folder}/base.yaml")
        self.api.call("deployment/create", {"name": "lab"})
        for number in range(3):
            node = {"deployment": "lab", "tags": ["web"]}
            self.api.call("node/create", {"name": f"n{number}.example.com", "node": node})
            self.ocb(f"node alive n{number}.example.com")
            self.ocb(f"node bind n{number}.example.com top")
        self.annealer.start()
        self.ocb("deployment commit lab --no-noderoles")
        self.ocb(f"rollout start {folder}/canary.yaml --deployment lab")
        self.ocb(f"tasks sync --dir {folder}/puppet")
        self.ocb("tasks upload --deployment lab --base rel")
        self.api.call("request/create", {"labels": ["small"]})

    def ocb(self, words: str) -> str:
        done = CliRunner().invoke(cli, [*words.split(), "--zookeeper", self.settings.hosts], prog_name="nodepool-ocb")
        assert done.exit_code == 0, f"{words}: {done.output}"
        return done.output

    def close(self) -> None:
        self.annealer.close()
        self.api.close()


@pytest.fixture(scope="module")
def living(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivingCluster]:
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('living')}")
    made = LivingCluster(settings, tmp_path_factory.mktemp("living"))
    try:
        made.fill()
        yield made
    finally:
        made.close()


def performed(browser: Browser, action: str, reason: str) -> str:
    """Perform an action through its dialog; gives the command that the dialog shows."""
    browser.click(f"[data-action={action}]")
    browser.shows("This makes ")
    command, curl = browser.script("return [...document.querySelectorAll('dialog pre')].map(each => each.textContent)")
    assert curl.startswith('curl -H "$AUTH"')
    browser.one("#reason").send_keys(reason)
    button = browser.one("dialog button.primary")
    browser.until(button.is_enabled, "the button")
    button.click()
    browser.until(lambda: browser.script("return document.querySelector('dialog') === null"), "the end of the dialog")
    return str(command)


def test_a_group_that_waits_for_a_person_is_promoted(browser: Browser, living: LivingCluster) -> None:
    browser.enter(living.api.address, living.api.token)
    browser.go("#/rollouts")
    (row,) = living.api.direct.perform(RolloutList())
    browser.shows("all: pauses after batch 1")
    browser.click("main td a", row.rollout)
    browser.shows("waits for a promotion")
    command = performed(browser, "promote", "the canary is well")
    assert command.startswith(f"nodepool-ocb rollout promote all {row.rollout} --batch 1")
    browser.one(".bar .badge", "success")
    assert browser.console() == []
    browser.go("#/timeline/lab")
    text = "return document.querySelector('.aside table')?.textContent ?? ''"
    browser.until(lambda: browser.script(text).count("succeeded") == 4, "the runs")


def test_a_paused_deployment_and_its_run_of_tasks_are_shown_and_stopped(
    browser: Browser, living: LivingCluster
) -> None:
    living.api.call("deployment/pause", {"names": ["lab"], "reason": "power work"})
    living.ocb("tasks run --deployment lab")
    browser.enter(living.api.address, living.api.token)
    browser.shows("deployment lab by ann")
    browser.shows("power work")
    browser.go("#/runs")
    browser.click("main td a", "lab/")
    browser.shows("its deployment is paused by ann")
    browser.shows("first")
    assert performed(browser, "stopTasks", "not now").startswith("nodepool-ocb tasks stop lab/")
    browser.go("#/overview")
    performed(browser, "resume", "power is back")
    browser.until(lambda: "power work" not in browser.text, "the end of the pause")
    assert browser.console() == []


def test_a_request_says_why_it_waits(browser: Browser, living: LivingCluster) -> None:
    browser.enter(living.api.address, living.api.token)
    browser.go("#/pool")
    browser.shows("no launcher is running")
    browser.click("main td a", "100-")
    browser.shows("no pool of a running launcher has its labels")
    browser.shows("NO_LAUNCHER")
    browser.shows("small")
    assert browser.console() == []


def test_a_daemon_is_paused_by_its_host_and_resumed(browser: Browser, living: LivingCluster) -> None:
    browser.enter(living.api.address, living.api.token)
    browser.go("#/daemons")
    browser.shows("annealer")
    assert performed(browser, "pauseDaemon", "kernel update").startswith("nodepool-ocb daemon pause annealer@")
    browser.shows("kernel update")
    browser.go("#/overview")
    browser.shows("annealers of host")
    performed(browser, "resumeDaemon", "booted")
    browser.until(lambda: "kernel update" not in browser.text, "the end of the pause")
    browser.go("#/history")
    browser.shows("daemon resume")
    browser.shows("booted")
    assert browser.console() == []


@pytest.mark.skipif(shutil.which(axe.PROGRAM) is None, reason="npm is not installed")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_on_the_views_of_one_object(
    browser: Browser, living: LivingCluster, tmp_path: Path, scheme: str
) -> None:
    browser.look(1280, 900, scheme)
    browser.enter(living.api.address, living.api.token)
    (row,) = living.api.direct.perform(RolloutList())
    views = (
        f"#/rollout/{row.rollout}",
        "#/request/100-0000000000",
        "#/timeline/lab",
        "#/graph/lab",
        "#/pool",
        "#/daemons",
    )
    runs = living.api.ask("GET", "/v1/task-runs").json()["answer"]
    views += tuple(f"#/run/{each['run']}" for each in runs)
    assert axe.serious(browser, axe.text(tmp_path), views) == {}
    browser.look(1280, 900)
