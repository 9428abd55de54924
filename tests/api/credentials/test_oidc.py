"""People with a login of an OpenID Connect issuer, on a real server: signed tokens, and the sign-in of the page."""

from __future__ import annotations

import base64
import itertools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import pytest
import yaml

from nodepool_ocb.api import logins
from nodepool_ocb.api.page.signing_in import _cookie
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.events import EventClient
from tests.api.issuer import CLIENT, Issuer
from tests.api.served import ServedApi, problem
from tests.fixtures.chroots import fresh

ROLES: Final = {
    "ops": {"role": "operator"},
    "labs": {"role": "operator", "deployments": ["lab"]},
    "webs": {"role": "operator", "deployments": ["web"], "reveal": True},
    "watch": {"role": "viewer"},
    "guard": {"role": "viewer"},
}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def api(zookeeper: Server, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedApi]:
    """The server starts while the issuer is away."""
    folder = tmp_path_factory.mktemp("oidc")
    secret = folder / "oidc-secret"
    secret.write_text("s&cret\n")
    secret.chmod(0o600)
    oidc = {
        "issuer": issuer.url,
        "client_id": CLIENT,
        "client_secret_file": str(secret),
        "audience": "ocb-api",
        "roles": ROLES,
    }
    issuer.stop()
    made = ServedApi(ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('oidc')}"), folder, oidc=oidc)
    assert made.ask("GET", "/v1/nodes").status_code == 200
    away = problem(made.ask("GET", "/v1/nodes", token=issuer.token(aud="ocb-api")))
    assert away == (503, "unavailable", "Unavailable")
    issuer.start()
    made.call("deployment/create", {"name": "lab"})
    yield made
    made.close()


ADDRESSES: Final = itertools.count(1)


def ask(api: ServedApi, path: str, token: str) -> httpx.Response:
    """A read from an address of its own: the failures of an address make its next answers late."""
    number = next(ADDRESSES)
    transport = httpx.HTTPTransport(local_address=f"127.2.{number // 250}.{number % 250 + 1}")
    with httpx.Client(base_url=api.address, transport=transport, timeout=30.0) as client:
        return client.get(path, headers={"Authorization": f"Bearer {token}"})


def accepted(api: ServedApi, token: str) -> httpx.Response:
    """The answer when the issuer has been asked again: the server pauses between two attempts."""
    end = time.monotonic() + 20
    while (answer := ask(api, "/v1/deployments", token)).status_code in (401, 503):
        assert time.monotonic() < end, answer.text
        time.sleep(0.2)
    return answer


@pytest.fixture
def known(api: ServedApi, issuer: Issuer) -> ServedApi:
    """The server knows the present key of the issuer."""
    assert accepted(api, issuer.token(aud="ocb-api")).status_code == 200
    return api


def test_a_signed_token_opens_the_rights_of_its_claim_and_the_journal_names_its_holder(
    known: ServedApi, issuer: Issuer
) -> None:
    token = issuer.token(aud=["ocb-api", "other"], preferred_username="ann b\n%")
    assert known.ask("PUT", "/v1/deployments/of-ann", {}, token).status_code == 200
    entry = known.ask("GET", "/v1/history?limit=1").json()["answer"]["rows"][0]
    assert entry["login"] == "oidc:ann%20b%0A%25"
    assert problem(known.ask("POST", "/v1/tokens", {"name": "x"}, token))[0] == 403
    watcher = issuer.token(aud="ocb-api", groups="watch")
    assert known.ask("GET", "/v1/nodes", token=watcher).status_code == 200
    assert problem(known.ask("PUT", "/v1/deployments/x", {}, watcher))[0] == 403


def test_no_token_bears_the_name_of_a_person_of_the_issuer(known: ServedApi) -> None:
    assert problem(known.ask("POST", "/v1/tokens", {"name": "oidc:ann"}))[0] == 422


def test_a_claim_value_with_limits_limits_and_the_greatest_role_counts(known: ServedApi, issuer: Issuer) -> None:
    def shown(*groups: str) -> list[str]:
        token = issuer.token(aud="ocb-api", groups=[*groups])
        return [row["name"] for row in known.ask("GET", "/v1/deployments", token=token).json()["answer"]]

    known.call("deployment/create", {"name": "web"})
    assert shown("labs") == shown("watch", "labs") == ["lab"]
    assert {"lab", "web"} <= {*shown("labs", "ops")}


def test_joined_claim_values_reveal_secrets_only_where_all_of_them_do(known: ServedApi, issuer: Issuer) -> None:
    for groups, reveals in ((("webs",), True), (("labs", "webs"), False), (("ops", "webs"), False)):
        token = issuer.token(aud="ocb-api", groups=[*groups])
        asked = known.ask("GET", "/v1/noderoles/ntp@n1.example.com?reveal=true", token=token)
        assert asked.status_code == (404 if reveals else 403), (groups, asked.text)


def unsigned(claims: dict[str, Any]) -> str:
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts) + "."


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1_000_000_000},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": 9_000_000_000},
        {"aud": "other"},
        {"aud": None},
        {"iss": "http://127.0.0.1:1"},
        {"iss": None},
        {"sub": None},
        {"sub": ""},
        {"aud": ["ocb-api", "other"], "azp": "other"},
    ],
    ids=json.dumps,
)
def test_a_signed_token_with_a_wrong_claim_is_refused(known: ServedApi, issuer: Issuer, claims: dict[str, Any]) -> None:
    token = issuer.token(**{"aud": "ocb-api", **claims})
    assert problem(ask(known, "/v1/nodes", token)) == (401, "unauthorized", "Unauthorized")


def test_a_token_with_no_or_a_forged_signature_is_refused(known: ServedApi, issuer: Issuer) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    public = next(iter(issuer.keys.values())).public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    good = {"iss": issuer.url, "aud": "ocb-api", "exp": time.time() + 60, **issuer.claims}
    forged = [
        unsigned(good),
        issuer.token(stranger, aud="ocb-api"),
        issuer.token(stranger, aud="ocb-api", kid="unknown"),
        hs256(good, pem, next(iter(issuer.keys))),
        f"{issuer.token(aud='ocb-api')[:-4]}AAAA",
        issuer.token(aud="ocb-api", padding="x" * 20_000),
    ]
    for token in forged:
        assert problem(ask(known, "/v1/nodes", token))[0] == 401
    assert problem(known.ask("GET", f"/v1/nodes?token={issuer.token()}"))[0] == 401


def hs256(claims: dict[str, Any], secret: bytes, kid: str) -> str:
    """Signed with a public key as if it were a shared secret."""
    import hashlib
    import hmac

    parts = ({"alg": "HS256", "typ": "JWT", "kid": kid}, claims)
    text = ".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts)
    signature = hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def test_a_claim_value_without_a_role_is_denied(known: ServedApi, issuer: Issuer) -> None:
    for groups in (["guests"], [], None, {"ops": True}, [["ops"]]):
        answer = known.ask("GET", "/v1/nodes", token=issuer.token(aud="ocb-api", groups=groups))
        assert problem(answer) == (403, "denied", "Denied")


def test_a_new_key_is_found_and_a_known_one_serves_while_the_issuer_is_away(known: ServedApi, issuer: Issuer) -> None:
    issuer.rotate()
    token = issuer.token(aud="ocb-api")
    assert accepted(known, token).status_code == 200
    issuer.stop()
    try:
        assert known.ask("GET", "/v1/nodes", token=token).status_code == 200
        assert known.ask("GET", "/v1/nodes").status_code == 200, "tokens of ours need no issuer"
    finally:
        issuer.start()


def test_a_role_that_an_admin_takes_away_ends_the_streams_of_its_holders_alone(
    known: ServedApi, issuer: Issuer, until: Callable[..., None]
) -> None:
    guard, watcher = (issuer.token(aud="ocb-api", groups=[each]) for each in ("guard", "watch"))
    streams = [EventClient(known.address, each) for each in (guard, watcher)]
    until(lambda: all(each.of("begin") for each in streams))
    section = yaml.safe_load(known.daemon.config.read_text())["api"]["oidc"]
    roles = {name: role for name, role in section["roles"].items() if name != "guard"}
    known.daemon.configure(api={"oidc": {**section, "roles": roles}})
    known.daemon.reload()
    until(lambda: streams[0].ended, seconds=20.0)
    assert [each["reason"] for each in streams[0].of("end")] == ["the token is revoked, or has ended"]
    assert problem(known.ask("GET", "/v1/nodes", token=guard))[0] == 403
    assert known.ask("GET", "/v1/nodes", token=watcher).status_code == 200
    assert not streams[1].ended
    for each in streams:
        each.close()


# -- the page --


@pytest.fixture
def browsers(known: ServedApi) -> Iterator[Callable[[], Browser]]:
    """Browsers without a session, closed at the end."""
    made: list[Browser] = []

    def open_one() -> Browser:
        made.append(Browser(known))
        return made[-1]

    yield open_one
    for each in made:
        each.client.close()


class Browser:
    """A browser at the page: it keeps cookies, and follows the way to the issuer and back."""

    def __init__(self, api: ServedApi) -> None:
        self.api = api
        transport = httpx.HTTPTransport(local_address=f"127.3.0.{next(ADDRESSES)}")
        self.client = httpx.Client(base_url=api.address, transport=transport, timeout=30.0)
        self.headers = {"Ocb-Page": "1", "Origin": api.address, "Sec-Fetch-Site": "same-origin"}

    def begin(self) -> httpx.Response:
        return self.client.post("/v1/session/oidc", headers=self.headers)

    def back(self, **changed: str) -> httpx.Response:
        """Through the issuer and back, with some parts of the query changed."""
        place = httpx.get(self.begin().json()["address"]).headers["location"]
        address = httpx.URL(place)
        return self.client.get(address.copy_merge_params(changed))

    def session(self) -> Any:
        return self.client.get("/v1/session").json()


def test_the_page_signs_in_at_the_issuer_and_gets_a_session(browsers: Callable[[], Browser]) -> None:
    browser = browsers()
    assert browser.session()["oidc"] is True
    back = browser.back()
    assert (back.status_code, back.headers["location"]) == (303, "/")
    cookies = back.headers.get_list("set-cookie")
    session = next(each for each in cookies if each.startswith("ocb_session="))
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {each.strip() for each in session.split(";")}
    assert {*browser.client.cookies} == {"ocb_session"}, "the sign-in under way is over"
    found = browser.session()
    assert (found["name"], found["role"]) == ("oidc:ann", "operator")
    assert browser.client.get("/v1/nodes").status_code == 200
    created = browser.client.put("/v1/deployments/of-page", json={}, headers=browser.headers)
    assert created.status_code == 200
    assert browser.client.put("/v1/deployments/forged", json={}).status_code == 403
    browser.client.delete("/v1/session", headers=browser.headers)
    assert browser.session()["name"] is None


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"state": "x"}, "unauthorized"),
        ({"code": "x"}, "unauthorized"),
        ({"code": "", "error": "access_denied"}, "denied"),
        ({"iss": "https://other.example.com"}, "unauthorized"),
    ],
    ids=["state", "code", "error", "issuer"],
)
def test_a_wrong_answer_of_the_issuer_signs_nobody_in(
    browsers: Callable[[], Browser], changed: dict[str, str], fault: str
) -> None:
    browser = browsers()
    back = browser.back(**changed)
    assert (back.status_code, back.headers["location"]) == (303, f"/#/signin?fault={fault}")
    assert browser.session()["name"] is None


def test_a_replayed_token_another_browser_and_a_person_without_a_role_are_not_signed_in(
    browsers: Callable[[], Browser], issuer: Issuer
) -> None:
    first, other = browsers(), browsers()
    address = first.begin().json()["address"]
    place = httpx.get(address).headers["location"]
    assert "unauthorized" in other.client.get(place).headers["location"], "it has no sign-in under way"
    issuer.nonce = "of-another-sign-in"
    try:
        assert "unauthorized" in first.client.get(place).headers["location"]
    finally:
        issuer.nonce = None
    before = issuer.claims
    for claims, fault in (({"groups": ["guests"]}, "denied"), ({"padding": "x" * 4000}, "invalid")):
        issuer.claims = {**before, **claims}
        try:
            assert first.back().headers["location"] == f"/#/signin?fault={fault}"
        finally:
            issuer.claims = before
    assert first.session()["name"] is None


def test_a_sign_in_begins_with_the_page_alone_and_under_the_names_of_the_server(
    known: ServedApi, browsers: Callable[[], Browser]
) -> None:
    assert problem(known.client.post("/v1/session/oidc"))[0] == 403
    assert known.client.get("/v1/session/oidc").status_code == 405
    browser, rebound = browsers(), {"Host": "rebound.example.com"}
    begun = browser.client.post("/v1/session/oidc", headers={**browser.headers, **rebound, "Origin": ""})
    assert problem(begun)[0] == 422
    assert problem(browser.client.get("/v1/session/oidc/callback?state=x", headers=rebound))[0] == 422


def test_behind_tls_the_cookie_of_a_sign_in_is_one_that_no_other_host_can_set(
    browsers: Callable[[], Browser], known: ServedApi
) -> None:
    browser = browsers()
    browser.headers["Origin"] = f"https://{known.address.partition('//')[2]}"
    begun = browser.begin()
    assert begun.status_code == 200
    parts = [each.strip() for each in begun.headers["set-cookie"].split(";")]
    assert parts[0].startswith("__Host-ocb_signin=")
    assert {"HttpOnly", "Secure", "SameSite=lax", "Path=/"} <= {*parts}
    for secure, key in ((True, "__Host-ocb_session"), (False, "ocb_session")):
        made = _cookie(logins.COOKIE, "x", "strict", None, secure)
        assert (made.key, made.secure, made.httponly, made.samesite, made.path) == (key, secure, True, "strict", "/")
