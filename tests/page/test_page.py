"""The page in a real browser, on a small tree: an incident from the sign-in to the retry."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import State
from nodepool_ocb.operations.history.reading import HistoryRead
from nodepool_ocb.operations.noderoles.reading import NoderoleShow
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.served import ServedApi
from tests.fixtures.chroots import fresh
from tests.page import tree
from tests.page.browser import Browser, Keys, sign_in, why_not

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

FAILED = "step-1-0@n0001.example.com"
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
OUTPUT = f"{HOSTILE}\x1b[31mred\x1b]0;title\x07\nE: no such package\n{'x' * 3000}"


@pytest.fixture(scope="module")
def served(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedApi]:
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('page')}")
    tree.write(settings, nodes=4, roles=3)
    with Session(settings) as session:
        tree.fail(session, FAILED, f"exit code 1: {HOSTILE}", OUTPUT)
    made = ServedApi(settings, tmp_path_factory.mktemp("api"))
    made.call("node/hold", {"nodes": ["n0003.example.com"], "reason": "waits for a disk"})
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


def state(served: ServedApi, noderole: str) -> State:
    found: State = served.direct.perform(NoderoleShow(noderole=noderole)).record.state
    return found


def test_a_failure_is_found_read_and_retried_in_three_clicks(browser: Browser, served: ServedApi) -> None:
    sign_in(browser, served.address, served.direct.token("olga", "operator"))
    browser.shows("waits for a disk")
    browser.shows("1 noderole: exit code 1: <script>")
    browser.click(".cause h3 a")  # the first click
    browser.shows("E: no such package")
    assert "red" in browser.one("pre.log").text
    assert "\x1b" not in browser.one("pre.log").text
    browser.click("[data-action=retry]")  # the second
    browser.shows("This makes 1 change")
    assert "nodepool-ocb noderole retry" in str(
        browser.script("return document.querySelector('dialog pre').textContent")
    )
    assert state(served, FAILED) is State.ERROR  # a dry run
    browser.one("#reason").send_keys("the mirror is back")
    browser.click("dialog button.primary", "Retry")  # the third
    browser.until(lambda: state(served, FAILED) is State.TODO, "the retry")
    entry = next(iter(served.direct.perform(HistoryRead(names=(FAILED,))).rows)).record
    assert (entry.login, entry.verb, entry.reason) == ("olga", "noderole retry", "the mirror is back")
    assert "owned" not in browser.driver.title
    assert browser.console() == []
    assert browser.hosts() == {served.address.removeprefix("http://")}


def test_the_keys_alone_lead_to_a_noderole_and_a_filter_stands_in_the_address(browser: Browser) -> None:
    browser.script("document.activeElement.blur()")
    browser.script("document.body.focus()")
    browser.press("g", "m")
    browser.until(
        lambda: browser.script("return document.querySelector('.grid')?.dataset.painted") == "4", "the matrix"
    )
    browser.press("/")
    browser.press("n0002", Keys.ENTER, Keys.ESCAPE)
    browser.until(
        lambda: browser.script("return document.querySelector('.grid')?.dataset.painted") == "1", "the filter"
    )
    assert browser.driver.current_url.endswith("#/matrix?l=n0002") or "l=n0002" in browser.driver.current_url
    rows = browser.until(lambda: browser.script("return document.querySelector('.aside table')?.textContent"), "rows")
    assert "n0002.example.com" in rows
    assert "ACTIVE" in rows
    browser.press("l", "x")
    browser.shows("1 noderole on 1 node in 1 rack (r0 1)")
    browser.press(Keys.ENTER)
    browser.one("h1", "step-1-0@n0002.example.com")
    assert browser.console() == []


def test_a_change_is_on_the_screen_within_a_second(browser: Browser, served: ServedApi) -> None:
    browser.go("#/noderole/step-2-0@n0002.example.com")
    browser.one("h1", "step-2-0@n0002.example.com")
    browser.one(".bar .badge", "ACTIVE")
    with Session(served.settings) as session:
        delays = []
        for wanted in (State.BLOCKED, State.ACTIVE, State.BLOCKED):
            tree.change(session, "step-2-0@n0002.example.com", state=wanted)
            began = time.monotonic()
            browser.one(".bar .badge", wanted)
            delays.append(time.monotonic() - began)
    assert sorted(delays)[0] < 5.0  # the figure of a quiet machine is 1 s: see the long form


def test_one_object_is_shown_again_after_a_change_and_one_that_is_not_there_is_named(
    browser: Browser, served: ServedApi
) -> None:
    browser.go("#/node/n0003.example.com")
    browser.shows("waits for a disk")
    served.call("node/set", {"nodes": ["n0003.example.com"], "assignments": ["rack=r77"]})
    browser.shows("r77")
    browser.go("#/rollout/bench")
    browser.shows("nodepool-ocb rollout")


def test_the_overview_shows_the_progress_of_a_deployment_by_its_milestones(browser: Browser) -> None:
    browser.go("#/overview")
    browser.shows("step-2-0: 3 of 4")
    bars = browser.script(
        "return [...document.querySelectorAll('.progress')].map(each => each.getAttribute('aria-label'))"
    )
    assert "step-2-0: 3 of 4" in bars
    assert len(bars) == 2  # of all roles, and of the milestone


def test_a_destructive_action_on_several_records_asks_for_their_number(browser: Browser, served: ServedApi) -> None:
    browser.go("#/matrix/bench")
    browser.until(
        lambda: browser.script("return document.querySelector('.grid')?.dataset.painted") == "4", "the matrix"
    )
    browser.script("document.activeElement.blur()")
    browser.press("X")
    browser.shows("12 noderoles on 4 nodes")
    browser.click(".choice [data-action=propose]")
    browser.shows("Type 12 to confirm the number of records")
    browser.one("#reason").send_keys("a new switch")
    button = browser.one("dialog button.primary")
    browser.one("#count").send_keys("1")
    assert not button.is_enabled()
    browser.one("#count").send_keys("2")
    browser.until(button.is_enabled, "the button")
    button.click()
    browser.shows("PROPOSED 12")
    assert state(served, "step-0-0@n0003.example.com") is State.PROPOSED


def test_a_viewer_sees_no_action_and_signing_out_ends_the_session(browser: Browser, served: ServedApi) -> None:
    browser.click("#person button", "Sign out")
    browser.one("#token")
    assert json.loads(str(browser.script("return JSON.stringify(document.cookie)"))) == ""
    sign_in(browser, served.address, served.direct.token("vic", "viewer"))
    browser.shows("vic (viewer)")
    browser.shows("on 4 nodes")
    assert not browser.script(
        "return [...document.querySelectorAll('[data-action]')].some(each => each.checkVisibility())"
    )
    browser.click("#person button", "Sign out")
    browser.one("#token").send_keys("ocb_wrong", Keys.ENTER)
    browser.shows("this is no token")
