"""Eight real failures of one cluster: the page leads from the overview to the text that names the cause, in three clicks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.testing.processes import await_that
from nodepool_ocb.testing.zookeeper.server import Server
from tests.fixtures.chroots import fresh
from tests.page import wreck
from tests.page.browser import Browser, why_not
from tests.page.walk import Walk
from tests.page.wreck import Wreck

pytestmark = [pytest.mark.long, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

SECONDS: Final = 120.0  # until all has failed


@pytest.fixture
def wrecked(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wreck]:
    hosts = f"{zookeeper.hosts}{fresh('wreck')}"
    made = Wreck(ZooKeeperSettings(hosts=hosts, session_timeout_seconds=4.0), tmp_path_factory.mktemp("wreck"))
    try:
        made.begin()
        await_that(made.settled, SECONDS, "all has failed")
        yield made
    finally:
        made.close()


def failing_script(walk: Walk) -> None:
    walk.page.shows("2 noderoles: exit code 1: E: Unable to locate package ntp-4.2")
    walk.click(".cause h3 a", "ntp-4.2")
    walk.page.one("pre.log", "E: Unable to locate package ntp-4.2")
    walk.click("button", "Read the log at its annealer")
    walk.page.shows("it has ended.")


def full_disk(walk: Walk) -> None:
    walk.click(".cause h3 a", "No space left on device")
    walk.page.one("h1", "backup@web3.example.com")
    walk.page.one("pre.log", "No space left on device")


def script_past_its_deadline(walk: Walk) -> None:
    walk.click(".cause h3 a", "timed out after 2 s")
    walk.page.one("h1", "migrate@db1.example.com")
    walk.page.one("pre.log", "waits for the lock of table orders")


def machine_that_is_off(walk: Walk) -> None:
    walk.page.shows("Nodes that cannot work: 1")
    walk.click("main td a", wreck.OFF)
    walk.page.one(".reason.bad", "Connection refused")


def failed_task_list(walk: Walk) -> None:
    walk.click("main td a", "fuel/")
    walk.page.one(".reason.bad", "RTNETLINK answers: Network is unreachable")
    walk.click("main td a", "route")
    walk.page.one("pre.log", "RTNETLINK answers: Network is unreachable")


def broken_build(walk: Walk) -> None:
    walk.click("main td a", wreck.IMAGE)
    walk.page.one("pre.log", "E: Release file of mirror.example.com expired 3 days ago")


def paused_deployment(walk: Walk) -> None:
    walk.page.shows("deployment shop by ann")
    walk.page.shows(wreck.PAUSE)
    walk.click("main td a", "agent@shop1.example.com")
    walk.page.one(".reasons", "PAUSED")


def dead_annealer(walk: Walk) -> None:
    walk.page.shows("2 noderoles to do, and no annealer runs.")
    walk.page.shows("systemctl start nodepool-ocb-annealer")


def test_the_page_leads_to_the_cause_of_eight_real_failures_in_three_clicks(browser: Browser, wrecked: Wreck) -> None:
    scenes = (
        failing_script, full_disk, script_past_its_deadline, machine_that_is_off, failed_task_list, broken_build,
        paused_deployment,
    )  # fmt: skip
    for scene in scenes:
        walk = Walk(browser, wrecked.api)
        scene(walk)
        walk.ends(scene.__name__)
    wrecked.annealer.kill()
    walk = Walk(browser, wrecked.api)
    dead_annealer(walk)
    walk.ends(dead_annealer.__name__)
    assert browser.console() == []
