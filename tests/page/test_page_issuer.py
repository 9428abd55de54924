"""The sign-in at an issuer of OpenID Connect, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nodepool_ocb.api import logins
from tests.api.issuer import Issuer
from tests.page.browser import Browser, why_not
from tests.page.conftest import ServedTree

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

BUTTON = "Sign in with your account"


@pytest.fixture
def stranger(browser: Browser, served: ServedTree) -> Iterator[Browser]:
    """The browser without a session, at the form."""
    browser.look(1280, 900)
    browser.driver.get(f"{served.address}/page/style.css")
    browser.driver.delete_all_cookies()
    browser.driver.get(f"{served.address}/")
    browser.one("form.signin button", BUTTON)
    browser.console(), browser.hosts()
    yield browser
    browser.driver.delete_all_cookies()


def test_the_button_leads_through_the_issuer_into_the_page_and_a_person_without_a_role_reads_why(
    stranger: Browser, served: ServedTree, issuer: Issuer
) -> None:
    before = issuer.claims
    issuer.claims = {**before, "groups": ["guests"]}
    try:
        stranger.click("form.signin button", BUTTON)
        stranger.shows("Your account has no role here.")
        assert stranger.driver.get_cookie(logins.COOKIE) is None
    finally:
        issuer.claims = before
    stranger.click("form.signin button", BUTTON)
    stranger.one("nav a", "Overview")
    stranger.shows("oidc:ann (operator)")
    cookie = stranger.driver.get_cookie(logins.COOKIE)
    assert cookie is not None
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["secure"]) == (True, "Strict", False)
    assert stranger.script("return document.cookie") == ""
    assert stranger.driver.get_cookie(logins.FLOW_COOKIE) is None
    assert stranger.console() == []
    assert stranger.hosts() == {each.removeprefix("http://") for each in (served.address, issuer.url)}
