"""The page in a real browser, on a small tree: an incident from the overview to the retry."""

from __future__ import annotations

import json
import re
import time

import pytest

from nodepool_ocb.model.records import State
from nodepool_ocb.operations.history.reading import HistoryRead
from nodepool_ocb.operations.noderoles.reading import NoderoleShow
from nodepool_ocb.store.client.session import Session
from tests.api.logged import FQDN
from tests.page import tree
from tests.page.browser import Browser, Keys, sign_in, why_not
from tests.page.conftest import ServedTree
from tests.page.tree import FAILED

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]


def state(served: ServedTree, noderole: str) -> State:
    found: State = served.direct.perform(NoderoleShow(noderole=noderole)).record.state
    return found


def painted(page: Browser, rows: int) -> None:
    """Wait until the canvas shows so many rows."""
    text = "return document.querySelector('.grid')?.dataset.painted"
    page.until(lambda: page.script(text) == str(rows), f"{rows} rows")


def test_a_failure_is_found_read_and_retried_in_three_clicks(page: Browser, served: ServedTree) -> None:
    page.shows("waits for a disk")
    page.shows("1 noderole: exit code 1: <script>")
    page.click(".cause h3 a")  # the first click
    page.shows("E: no such package")
    assert "red" in page.one("pre.log").text
    assert "\x1b" not in page.one("pre.log").text
    page.click("[data-action=retry]")  # the second
    page.shows("This makes 1 change")
    page.shows("Type a reason first.")
    assert not page.one("dialog .changes li").text.rstrip().endswith(";")
    assert "nodepool-ocb noderole retry" in str(page.script("return document.querySelector('dialog pre').textContent"))
    assert state(served, FAILED) is State.ERROR  # a dry run
    page.one("#reason").send_keys("the mirror is back")
    page.click("dialog button.primary", "Retry")  # the third
    page.until(lambda: state(served, FAILED) is State.TODO, "the retry")
    entry = next(iter(served.direct.perform(HistoryRead(names=(FAILED,))).rows)).record
    assert (entry.login, entry.verb, entry.reason) == ("olga", "noderole retry", "the mirror is back")
    assert "owned" not in page.driver.title
    assert page.console() == []
    assert page.hosts() <= {served.address.removeprefix("http://")}


def test_the_keys_alone_lead_to_a_noderole_and_a_filter_stands_in_the_address(page: Browser) -> None:
    page.press("g", "k")
    page.one("h1", "Locks")
    page.press("g", "m")
    painted(page, 9)  # of all deployments
    page.press("/")
    page.press("n0005", Keys.ENTER, Keys.ESCAPE)
    painted(page, 1)
    assert "l=n0005" in page.driver.current_url
    assert page.script("return document.querySelector('.grid').offsetHeight") < 200
    table = "return document.querySelector('.aside table')?.textContent ?? ''"
    page.until(
        lambda: {"n0005.example.com", "ACTIVE"} <= {*re.findall(r"n[0-9.a-z]+com|ACTIVE", page.script(table))}, "rows"
    )
    page.press("l", "x")
    page.shows("1 noderole on 1 node in rack r0")
    page.press(Keys.ENTER)
    page.one("h1", "step-1-0@n0005.example.com")
    assert page.console() == []


def test_a_change_is_on_the_screen_within_a_second(page: Browser, served: ServedTree) -> None:
    page.go("#/noderole/step-2-0@n0006.example.com")
    page.one("h1", "step-2-0@n0006.example.com")
    page.one(".bar .badge", "ACTIVE")
    with Session(served.settings) as session:
        delays = []
        for wanted in (State.BLOCKED, State.ACTIVE, State.BLOCKED, State.ACTIVE):
            tree.change(session, "step-2-0@n0006.example.com", state=wanted)
            began = time.monotonic()
            page.one(".bar .badge", wanted)
            delays.append(time.monotonic() - began)
    assert sorted(delays)[0] < 5.0  # the figure of a quiet machine is 1 s: see the long form


def test_one_object_is_shown_again_after_a_change_and_one_that_is_not_there_is_named(
    page: Browser, served: ServedTree
) -> None:
    page.go("#/node/n0003.example.com")
    page.shows("waits for a disk")
    served.call("node/set", {"nodes": ["n0003.example.com"], "assignments": ["rack=r77"]})
    page.shows("r77")
    page.click(".links a", "History of this node")
    page.shows("rack: r0 → r77")
    assert page.one("main td a", "n0003.example.com").get_attribute("href").endswith("#/node/n0003.example.com")
    page.go(f"#/node/{FQDN}")
    page.shows("it has no address")
    page.shows("no annealer has probed it yet")
    served.call("power/set", {"nodes": [FQDN], "assignments": ["driver=manual"]})
    page.shows("unknown, never asked (manual)")
    page.click("[data-action=powerOn]")
    page.shows("This makes 1 change")
    page.go("#/rollout/bench")
    page.shows("nodepool-ocb rollout")


def test_matches_in_another_deployment_and_unknown_parts_of_an_address_are_told(page: Browser) -> None:
    page.go("#/matrix/lab?l=n0005&deployment=nope")
    page.shows("The address has deployment=nope, which this view does not know.")
    page.shows("In other deployments 3 noderoles match")
    href = page.until(lambda: page.script("return document.querySelector('.counts a')?.hash"), "the link to all")
    page.go(str(href))
    painted(page, 1)
    page.go("#/foo")
    page.shows("The address names the view foo, which does not exist.")
    page.shows("Holds and pauses")


def test_a_noderole_to_do_on_a_held_node_has_that_as_its_reason_on_the_overview(page: Browser) -> None:
    page.shows("NODE_HELD: node n0003.example.com is held by ann")


def test_the_overview_shows_the_progress_of_a_deployment_by_its_milestones(page: Browser) -> None:
    def bars() -> list[str]:
        text = "return [...document.querySelectorAll('.progress')].map(each => each.getAttribute('aria-label'))"
        return [each for each in page.script(text) if " of 8" in each or " of 24" in each]

    page.until(lambda: len(bars()) == 2, "the bars")  # of all roles, and of the milestone
    assert bars()[1].startswith("step-2-0: ")


def test_a_destructive_action_on_several_records_asks_for_their_number(page: Browser, served: ServedTree) -> None:
    page.go("#/matrix/bench?l=n0004")
    painted(page, 1)
    page.press("X")
    page.shows("3 noderoles on 1 node")
    page.click(".choice [data-action=propose]")
    page.shows("Type 6 to confirm the number of records")
    page.one("#reason").send_keys("a new switch")
    button = page.one("dialog button.primary")
    page.one("#count").send_keys("1")
    assert not button.is_enabled()
    page.one("#count").send_keys(Keys.BACKSPACE, "6")
    page.until(button.is_enabled, "the button")
    button.click()
    page.shows("PROPOSED 3")
    assert state(served, "step-0-0@n0004.example.com") is State.PROPOSED


def test_a_viewer_of_one_deployment_sees_its_part_and_why_the_rest_is_closed(
    browser: Browser, served: ServedTree
) -> None:
    browser.enter(served.address, served.direct.token("vera", "viewer", deployments=("lab",)))
    browser.shows("vera (viewer of lab)")
    browser.shows("on 1 node")
    browser.shows("Nodes that cannot work: 1")
    browser.go("#/graph")
    browser.one("main td a", "base")
    assert "step-0-0" not in browser.text
    assert browser.console() == []
    browser.go("#/images")
    browser.shows("This view is closed to your token: image list concerns the whole cluster")


def test_a_viewer_sees_no_action_and_signing_out_ends_the_session(browser: Browser, served: ServedTree) -> None:
    browser.driver.delete_all_cookies()
    sign_in(browser, served.address, served.direct.token("vic", "viewer"))
    browser.shows("vic (viewer)")
    browser.shows("on 9 nodes")
    text = "return [...document.querySelectorAll('[data-action]')].some(each => each.checkVisibility())"
    assert not browser.script(text)
    assert json.loads(str(browser.script("return JSON.stringify(document.cookie)"))) == ""
    browser.click("#person button", "Sign out")
    browser.one("#token").send_keys("ocb_wrong", Keys.ENTER)
    browser.shows("the token is malformed")
