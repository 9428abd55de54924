"""The Host and Origin headers, and the requests that the page itself sends: every mix of them."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from nodepool_ocb.api import hosts, logins
from nodepool_ocb.errors import Denied, Invalid

OWN: Final = "api.example.com:9480"


def refused(method: str, headers: dict[str, str]) -> bool:
    try:
        hosts.require_own_page(method, headers)
    except Denied:
        return True
    return False


def test_a_request_with_the_cookie_is_refused_unless_the_page_itself_sent_it() -> None:
    """The rule, restated: no other site; a write has the page's header, an origin that the browser states, and no foreign one."""
    for method, site, origin, header in product(
        ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"),
        (None, "same-origin", "none", "same-site", "cross-site"),
        (None, f"https://{OWN}", "https://other.example.com", "null"),
        (False, True),
    ):
        headers = {"host": OWN, "sec-fetch-site": site, "origin": origin, "ocb-page": "1" if header else None}
        given = {name: text for name, text in headers.items() if text is not None}
        foreign = site in ("same-site", "cross-site")
        write = method not in ("GET", "HEAD")
        stated = site is not None or origin is not None
        wrong = write and (not header or not stated or origin not in (None, f"https://{OWN}"))
        assert refused(method, given) == (foreign or wrong), (method, given)


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        (None, OWN, True),
        (None, None, True),
        (f"https://{OWN}", OWN, True),
        (f"http://{OWN.upper()}", OWN, True),
        ("https://api.example.com", OWN, False),
        ("null", OWN, False),
        ("", "", True),
        ("null", None, False),
        (f"https://{OWN}.evil.example", OWN, False),
    ],
)
def test_an_origin_is_that_of_the_host_or_of_a_program(origin: str | None, host: str | None, own: bool) -> None:
    if own:
        hosts.require_origin(origin, host)
    else:
        with pytest.raises(Denied, match="another site"):
            hosts.require_origin(origin, host)


@pytest.mark.parametrize(
    ("header", "known"),
    [
        ("localhost:1", True),
        ("127.0.0.1:9480", True),
        ("[2001:db8::1]:9480", True),
        ("API.example.com.:9480", True),
        ("other.example.com", False),
        ("api.example.com.evil.example", False),
        ("", False),
        (None, False),
        ("[::1", False),
        ("1.2.3", False),
    ],
)
def test_a_host_is_an_address_or_a_name_of_this_server(header: str | None, known: bool) -> None:
    if known:
        hosts.require_host(header, {"api.example.com"})
    else:
        with pytest.raises(Invalid, match="no name of this server"):
            hosts.require_host(header, {"api.example.com"})


def test_a_sign_in_of_any_length_is_none() -> None:
    text = "s" * logins.LONGEST_FLOW
    assert logins.of_flow(f"ocb_signin={text}", secure=False) == text
    assert logins.of_flow(f"ocb_signin={text}x", secure=False) is None
