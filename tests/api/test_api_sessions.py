"""Sessions of the page on a real server: the cookie, the requests that it opens, and requests of other sites."""

from __future__ import annotations

import re
from collections.abc import Callable
from http.cookies import SimpleCookie

import httpx
import pytest

from nodepool_ocb.api.page import files
from nodepool_ocb.operations.tokens.revoking import TokenRevoke
from tests.api.served import ServedApi, problem

Until = Callable[..., None]

OWN = {"Ocb-Page": "1", "Sec-Fetch-Site": "same-origin"}


def sign_in(api: ServedApi, token: str | None = None, **headers: str) -> httpx.Response:
    own = {"Ocb-Page": "1", "Origin": api.address, **{name.replace("_", "-"): each for name, each in headers.items()}}
    return httpx.post(f"{api.address}/v1/session", json={"token": token or api.token}, headers=own, timeout=60.0)


def cookie_of(answer: httpx.Response) -> dict[str, str]:
    """The Cookie header that a browser sends then."""
    (morsel,) = SimpleCookie(answer.headers["set-cookie"]).values()
    return {"Cookie": f"{morsel.key}={morsel.value}"}


def write(api: ServedApi, headers: dict[str, str]) -> httpx.Response:
    return httpx.post(
        f"{api.address}/v1/operations/deployment/create",
        json={"fields": {"name": "of-session"}, "dry_run": True},
        headers=headers,
        timeout=60.0,
    )


def test_a_token_in_the_form_becomes_a_cookie_that_no_script_and_no_other_site_sends(api: ServedApi) -> None:
    answer = sign_in(api)
    assert (answer.status_code, answer.json()["name"], answer.json()["role"]) == (200, "ann", "admin")
    (morsel,) = SimpleCookie(answer.headers["set-cookie"]).values()
    assert morsel["httponly"]
    assert (morsel["samesite"], morsel["path"], morsel["secure"]) == ("Strict", "/", "")
    assert api.token not in answer.text


def test_behind_tls_the_cookie_is_sent_by_tls_alone(api: ServedApi) -> None:
    host = api.address.removeprefix("http://")
    (morsel,) = SimpleCookie(sign_in(api, Origin=f"https://{host}").headers["set-cookie"]).values()
    assert morsel.key == "__Host-ocb_session"
    assert morsel["secure"]


def test_behind_tls_a_cookie_that_another_host_of_the_domain_can_set_is_no_session(api: ServedApi) -> None:
    secure = {"Origin": f"https://{api.address.removeprefix('http://')}"}
    plain, own = f"ocb_session={api.direct.token(role='viewer')}", f"__Host-ocb_session={api.token}"

    def role(cookie: str, headers: dict[str, str]) -> str | None:
        looked = httpx.get(f"{api.address}/v1/session", headers={"Cookie": cookie, **headers}, timeout=60.0)
        assert looked.status_code == 200
        return looked.json()["role"]  # type: ignore[no-any-return]

    assert role(plain, secure) is None
    assert role(f"{plain}; {own}", secure) == "admin"
    assert role(f"{plain}; {own}", {}) == "admin"
    assert role(plain, {}) == "viewer"


def test_the_cookie_opens_reads_and_with_the_header_of_the_page_writes(api: ServedApi) -> None:
    cookie = cookie_of(sign_in(api))
    assert httpx.get(f"{api.address}/v1/deployments", headers=cookie).status_code == 200
    assert httpx.get(f"{api.address}/v1/session", headers=cookie).json()["name"] == "ann"
    assert write(api, {**cookie, **OWN}).status_code == 200
    assert write(api, {**cookie, "Ocb-Page": "1", "Origin": api.address}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "same-origin"},
        {"Ocb-Page": "1"},
        {"Ocb-Page": "1", "Sec-Fetch-Site": "cross-site"},
        {"Ocb-Page": "1", "Sec-Fetch-Site": "same-site"},
        {"Ocb-Page": "1", "Origin": "http://other.example.com"},
        {"Ocb-Page": "1", "Sec-Fetch-Site": "same-origin", "Origin": "null"},
    ],
)
def test_a_write_with_the_cookie_that_the_page_did_not_send_is_refused(api: ServedApi, headers: dict[str, str]) -> None:
    assert problem(write(api, {**cookie_of(sign_in(api)), **headers})) == (403, "denied", "Denied")


def test_a_token_in_its_header_goes_before_the_cookie_and_needs_no_page(api: ServedApi) -> None:
    """A browser adds the cookie by itself, also to a request of a program within it."""
    cookie = cookie_of(sign_in(api, api.direct.token(role="viewer")))
    assert write(api, {**cookie, **OWN}).status_code == 403
    assert write(api, {**cookie, "Authorization": f"Bearer {api.token}"}).status_code == 200
    assert problem(write(api, {**cookie, **OWN, "Authorization": "Basic YTpi"}))[0] == 401


def test_a_read_that_another_site_makes_a_browser_send_is_refused(api: ServedApi) -> None:
    headers = {**cookie_of(sign_in(api)), "Sec-Fetch-Site": "cross-site"}
    assert problem(httpx.get(f"{api.address}/v1/deployments", headers=headers)) == (403, "denied", "Denied")


def test_another_site_cannot_sign_a_browser_in_or_out(api: ServedApi) -> None:
    assert problem(sign_in(api, Origin="http://other.example.com"))[0] == 403
    out = httpx.delete(f"{api.address}/v1/session", headers={"Origin": "http://other.example.com", "Ocb-Page": "1"})
    assert problem(out)[0] == 403


def test_a_form_of_another_page_makes_no_session_and_a_foreign_name_ends_none(api: ServedApi) -> None:
    bare = httpx.post(
        f"{api.address}/v1/session", json={"token": api.token}, timeout=60.0
    )  # as a form of a page sends it
    assert problem(bare)[0] == 403
    assert "set-cookie" not in bare.headers
    foreign = httpx.delete(f"{api.address}/v1/session", headers={**OWN, "Host": "rebound.example.com"})
    assert problem(foreign)[0] == 422
    assert "set-cookie" not in foreign.headers


def test_signing_out_removes_the_cookie(api: ServedApi) -> None:
    answer = httpx.delete(f"{api.address}/v1/session", headers=OWN)
    assert answer.headers["set-cookie"] == "ocb_session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"


def test_a_revoked_token_ends_its_session_and_a_new_page_is_not_at_fault(api: ServedApi, until: Until) -> None:
    token = api.direct.token()
    cookie = cookie_of(sign_in(api, token))
    api.direct.perform(TokenRevoke(tokens=(token.split("_")[1],)))
    until(lambda: httpx.get(f"{api.address}/v1/deployments", headers=cookie).status_code == 401)
    looked = httpx.get(f"{api.address}/v1/session", headers=cookie)
    assert (looked.status_code, looked.json()["name"]) == (200, None)
    assert "Max-Age=0" in looked.headers["set-cookie"]


@pytest.mark.parametrize(
    "text",
    [*(pytest.param(each, marks=pytest.mark.long) for each in ("", "Bearer")), "ocb_x", "ocb_000000000000_" + "A" * 43],
)
def test_a_wrong_token_is_refused_and_makes_no_cookie(api: ServedApi, text: str) -> None:
    own = {"Ocb-Page": "1", "Origin": api.address}
    answer = httpx.post(f"{api.address}/v1/session", json={"token": text}, headers=own, timeout=60.0)
    assert problem(answer)[0] == 401
    assert "set-cookie" not in answer.headers
    assert not text or text not in answer.text


def test_a_token_of_a_machine_does_not_sign_in(api: ServedApi) -> None:
    assert problem(sign_in(api, api.direct.token(role="join")))[0] == 403


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/v1/nodes", "/v1/session"])
def test_a_token_in_an_address_is_refused_even_beside_a_valid_one(api: ServedApi, path: str) -> None:
    answer = api.ask("GET", f"{path}?token={api.token}")
    assert problem(answer)[0] == 401
    assert "revoke" in answer.json()["detail"]


def test_the_files_of_the_page_load_nothing_else_and_stand_in_no_frame(api: ServedApi) -> None:
    page = httpx.get(f"{api.address}/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["x-content-type-options"] == "nosniff"
    again = httpx.get(f"{api.address}/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert problem(httpx.get(f"{api.address}/page/nothing.js"))[0] == 404
    assert problem(httpx.get(f"{api.address}/page/..%2Ffiles.py"))[0] == 404
    foreign = httpx.get(f"{api.address}/", headers={"Host": "rebound.example.com"})
    assert problem(foreign)[0] == 422


@pytest.mark.parametrize("name", sorted(files.all_files()))
def test_no_file_of_the_page_names_another_host_or_makes_markup_of_text(name: str) -> None:
    text = files.all_files()[name].content.decode()
    addresses = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]+", text))
    assert addresses <= {"http://www.w3.org"}  # the name of a language in an image
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    assert text.count("\n") < 300
