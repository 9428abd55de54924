"""Six planted failures, as a new operator meets them: at most three clicks from the overview to the text that names the cause."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.served import ServedApi
from tests.fixtures.chroots import fresh
from tests.page import tree
from tests.page.browser import Browser, Keys, why_not
from tests.page.walk import Walk

pytestmark = [pytest.mark.long, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

UNREACHED = "step-1-0@n0030.example.com"
SECRET = "step-0-0@n0031.example.com"
SEALED = "its run cannot be prepared: Vault has no key password at secret/db; write it there, or correct the reference"
FAILED_NODES = 12
RUNNING = 25


@pytest.fixture(scope="module")
def broken(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedApi]:
    """All failures at the same time, in one tree, and no annealer."""
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('broken')}")
    tree.write(settings, nodes=40, roles=4)
    with Session(settings) as session:
        tree.plant(session)
        for number in range(FAILED_NODES):
            name = f"step-2-0@n{number + 10:04}.example.com"
            tree.fail(session, name, "exit code 3", "curl: (22) mirror.example.com: 404 Not Found\n")
        tree.fail(session, UNREACHED, "connect to 10.9.9.9:22: timed out", "")
        now = time.time()
        tree.change(session, SECRET, state=State.TODO, reason=SEALED, since=now, not_before=now + 600.0, attempt=4)
        for number in range(RUNNING):
            tree.change(session, f"step-0-0@n{number:04}.example.com", state=State.TRANSITION, since=now)
        for number in range(32, 38):
            tree.change(session, f"step-3-0@n{number:04}.example.com", state=State.TODO, since=now - 500.0 - number)
    made = ServedApi(settings, tmp_path_factory.mktemp("api"))
    made.call("deployment/create", {"name": "shop"})
    made.call("deployment/pause", {"names": ["shop"], "reason": "the switch of hall 2 is replaced"})
    yield made
    made.close()


def unreached_machine(walk: Walk) -> None:
    walk.page.shows("1 noderole: connect to 10.9.9.9:22: timed out")
    walk.click(".cause h3 a", "timed out")
    walk.page.one("h1", UNREACHED)
    walk.page.shows("connect to 10.9.9.9:22: timed out")


def failing_script(walk: Walk) -> None:
    walk.page.shows(f"{FAILED_NODES} noderoles: exit code 3")
    walk.click(".cause h3 a", "exit code 3")
    walk.page.shows("mirror.example.com: 404 Not Found")
    walk.page.go("#/overview")
    walk.click(".cause [data-action=retry]")  # the first cause
    walk.page.shows(f"This makes {FAILED_NODES} changes")
    walk.page.press(Keys.ESCAPE)


def paused_deployment(walk: Walk) -> None:
    walk.page.shows("deployment shop by ann")
    walk.page.shows("the switch of hall 2 is replaced")


def missing_secret(walk: Walk) -> None:
    walk.click("main td a", SECRET)
    walk.page.shows("Vault has no key password at secret/db")


def dead_annealer(walk: Walk) -> None:
    walk.page.shows("7 noderoles to do, and no annealer runs")
    walk.page.shows("systemctl start nodepool-ocb-annealer")
    walk.click("main td a", "step-3-0@n0037.example.com")
    walk.page.shows("NO_ANNEALER")


def failed_build(walk: Walk) -> None:
    walk.page.shows("debootstrap: exit code 1")
    walk.click("main td a", tree.IMAGE)
    walk.page.shows("E: Couldn't download packages")


@pytest.mark.parametrize(
    "scene", [unreached_machine, failing_script, paused_deployment, missing_secret, dead_annealer, failed_build]
)
def test_the_page_leads_to_the_cause_of_a_planted_failure_in_three_clicks(
    browser: Browser, broken: ServedApi, scene: Callable[[Walk], None]
) -> None:
    walk = Walk(browser, broken)
    scene(walk)
    walk.ends(scene.__name__)
    assert browser.console() == []


def test_each_list_of_the_overview_has_a_way_to_all_of_it(browser: Browser, broken: ServedApi) -> None:
    browser.enter(broken.address, broken.token)
    rows = (
        "return [...document.querySelectorAll('main td a')].filter(a => a.textContent.startsWith('step-0-0@')).length"
    )
    browser.shows(f"Running now: {RUNNING}")
    few = browser.script(rows)
    browser.click("button", f"Show all {RUNNING}")
    assert (browser.script(rows) - few, few < RUNNING) == (RUNNING - 20, True)
    browser.click("a", "All 7 noderoles to do")
    browser.one(".grid[data-painted='7']")
    assert browser.console() == []


@pytest.mark.parametrize("width", [390, 1280, 2560])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_is_wider_than_the_window(
    browser: Browser, broken: ServedApi, width: int, scheme: str, tmp_path: Path
) -> None:
    views = (
        "#/overview", "#/matrix/bench", "#/graph/bench", f"#/graph?around={UNREACHED}", "#/timeline/bench", "#/nodes",
        f"#/noderole/{UNREACHED}", f"#/image/{tree.IMAGE}", "#/images", "#/history", "#/daemons", "#/pool", "#/runs",
        "#/rollouts", "#/locks", "#/machines", "#/matrix", "#/node/n0001.example.com",
    )  # fmt: skip
    browser.look(width, 900, scheme)
    browser.enter(broken.address, broken.token)
    for number, view in enumerate(views):
        browser.go(view)
        browser.one("main .grid[data-painted], main .card")
        wide = browser.script("return document.documentElement.scrollWidth")
        browser.driver.save_screenshot(str(tmp_path / f"{number:02}-{width}-{scheme}.png"))
        assert wide <= width, view
        assert browser.script("return document.getElementById('head').offsetHeight") < 90
    browser.look(1280, 900)
