"""Views of the page that draw or follow: the graph, the timeline, logs, and images."""

from __future__ import annotations

import shutil
import time

import pytest

from tests.api.logged import FQDN
from tests.page.browser import Browser, Keys, why_not
from tests.page.conftest import EARLIER, EARLIER_LOG, LEASE, ServedTree
from tests.page.tree import FAILED, HOSTILE, IMAGE, WORKED

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

AROUND = "step-1-0@n0006.example.com"
GOING = f"base@{FQDN}"
graphviz = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")


@graphviz
def test_a_box_of_the_graph_leads_to_its_noderole_and_the_table_says_the_same(page: Browser) -> None:
    page.go("#/graph/bench")
    page.one(".graph a.box", "step-1-0")
    page.one("main td .count", "ACTIVE")  # with the number of the noderoles of a role in a state
    page.go(f"#/graph?around={AROUND}&steps=1")
    page.one(".graph .centre", "n0006.example.com")
    texts = (
        "return [...document.querySelectorAll('.graph a')].map(each => each.textContent.split(/\\s+/).join(' ').trim())"
    )
    boxes = page.script(texts)
    assert "step-1-0 n0006.example.com ACTIVE" in boxes
    assert "step-0-0 n0007.example.com ACTIVE" in boxes
    rows = page.script("return [...document.querySelectorAll('main tbody tr')].map(each => each.innerText)")
    assert len(rows) == len(boxes) == 5
    page.script("[...document.querySelectorAll('.graph a')].find(each => each.classList.contains('centre')).focus()")
    page.press(Keys.ENTER)
    page.one("h1", AROUND)
    assert page.console() == []


def test_the_timeline_shows_runs_and_waits_and_keeps_its_time_in_the_address(page: Browser) -> None:
    page.go("#/timeline/bench?l=n0007&last=900")
    page.until(lambda: page.script("return document.querySelector('.times')?.dataset.painted") == "1", "the lane")
    rows = str(page.until(lambda: page.script("return document.querySelector('.aside table')?.textContent"), "rows"))
    assert rows.count("succeeded") == 2
    assert rows.count("waited for an annealer") == 2
    page.press("l", "l", "l")
    page.shows("succeeded")
    page.press("+")
    assert "from=" in page.driver.current_url
    assert "to=" in page.driver.current_url
    page.press(Keys.ENTER)
    page.one("h1", WORKED)
    assert "run=0000000002-bbbbbb" in page.driver.current_url
    page.click("[data-action=redeploy]")
    page.shows("can destroy data on the machine")
    page.press(Keys.ESCAPE)
    assert page.console() == []


@pytest.mark.parametrize("size", [300_000, pytest.param(10_000_000, marks=pytest.mark.long)])
def test_a_log_is_followed_as_text_and_no_size_of_a_line_fills_the_page(
    page: Browser, served: ServedTree, size: int
) -> None:
    page.go(f"#/noderole/{GOING}")
    page.one("pre.log")
    logged = served.logged
    logged.write(f"{HOSTILE}\x1b[2J\x1b]0;owned\x07first line\n".encode())
    page.shows("first line")
    logged.write(b"y" * size)
    logged.write("\nder letzte Satz: ü\n".encode())
    page.shows("der letzte Satz: ü")
    shown = page.script("return document.querySelector('pre.log').textContent.length")
    assert shown < 201_000
    assert page.script("return document.querySelector('pre.log').childNodes.length") == 1
    assert "owned" not in page.driver.title
    began = time.monotonic()
    page.script("document.querySelector('pre.log').scrollTop = 0; return document.body.offsetHeight")
    assert time.monotonic() - began < 5.0
    logged.write(b"still going\n")
    page.shows("still going")
    assert page.console() == []


def test_the_whole_log_of_a_run_that_is_over_is_one_button_away(page: Browser) -> None:
    page.go(f"#/noderole/{GOING}?run={EARLIER}")
    page.shows("This is its recorded end.")
    assert "it begins here" not in page.one("pre.log").text
    page.click("button", "Read the log at its annealer")
    page.shows(f"The whole log has {len(EARLIER_LOG):,} bytes; it has ended.")
    assert page.script("return document.querySelector('pre.log').textContent") == EARLIER_LOG
    assert page.console() == []


def test_the_cause_of_a_failed_build_is_two_clicks_away_and_a_build_can_be_asked_for(page: Browser) -> None:
    page.click("main td a", IMAGE)
    page.shows("Build 0000000001 failed: debootstrap: exit code 1")
    page.shows("E: Couldn't download packages")
    page.click("[data-action=build]")
    page.shows("This makes 1 change")
    words = page.script("return document.querySelector('dialog pre').textContent")
    assert words == f"nodepool-ocb image build {IMAGE} --reason '(reason)'"
    page.press(Keys.ESCAPE)
    assert page.console() == []


def test_a_node_of_a_pool_has_a_view_and_its_actions(page: Browser) -> None:
    page.press("g", "p")
    page.one("main td a", LEASE)
    page.one("main td", "ann")  # the comment of its hold
    page.press("j", "j", Keys.ENTER)  # the first row, a pool, has no link
    page.one("h1", LEASE)
    page.shows("10.0.0.7")
    page.click("[data-action=releaseLease]")
    page.shows("This makes 1 change")
    words = page.script("return document.querySelector('dialog pre').textContent")
    assert words == f"nodepool-ocb lease release {LEASE} --reason '(reason)'"
    page.press(Keys.ESCAPE)
    assert page.console() == []


def test_a_failed_noderole_leads_to_its_graph_and_its_timeline(page: Browser) -> None:
    page.go(f"#/noderole/{FAILED}")
    page.one("h1", FAILED)
    hrefs = page.until(
        lambda: page.script("return [...document.querySelectorAll('.links a')].map(a => a.hash)"), "links"
    )
    assert hrefs[0].startswith("#/graph?around=")
    assert hrefs[1].startswith("#/timeline/bench?l=n0001")


@pytest.mark.long
def test_a_log_goes_on_after_a_restart_of_the_server_without_a_gap(page: Browser, served: ServedTree) -> None:
    page.go(f"#/noderole/{GOING}")
    page.one("pre.log")
    served.logged.write(b"\nbefore the restart\n")
    page.shows("before the restart")
    served.daemon.kill()
    served.logged.write(b"during the restart\n")
    page.shows("the server does not answer")
    served.daemon.start()
    served.logged.write(b"after the restart\n")
    page.shows("after the restart")
    shown = str(page.script("return document.querySelector('pre.log').textContent"))
    assert shown.endswith("\nbefore the restart\nduring the restart\nafter the restart\n")


@pytest.mark.long
def test_a_key_soon_after_the_page_was_loaded_does_not_leave_the_view(browser: Browser, served: ServedTree) -> None:
    browser.enter(served.address, served.operator, "#/matrix/bench?l=n0005")
    browser.one(".grid[data-painted='1']")
    browser.press("l")
    browser.one(".about a", "step-1-0@n0005.example.com")
    assert "#/matrix/bench" in browser.driver.current_url
