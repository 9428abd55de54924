"""The sign-in of the page at a provider of OpenID Connect that others wrote, over real HTTP."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.testing.processes import await_that
from nodepool_ocb.testing.zookeeper.server import Server, free_port
from tests.api.served import ServedApi
from tests.fixtures.chroots import fresh

pytestmark = pytest.mark.long

SECONDS: Final = 60.0
PEOPLE: Final = (
    {"sub": "ann-1", "preferred_username": "ann", "groups": ["ops"]},
    {"sub": "guest-1", "preferred_username": "guest", "groups": ["guests"]},
)


@pytest.fixture
def issuer(oidc_provider: Path) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    people = [word for each in PEOPLE for word in ("--user-claims", json.dumps(each))]
    command = [oidc_provider / "oidc-provider-mock", "--port", str(port), "--require-nonce", "true", *people]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await_that(lambda: _documented(url), SECONDS, "the provider answers", alive=lambda: process.poll() is None)
        yield url
    finally:
        process.terminate()
        process.wait(SECONDS)


def _documented(url: str) -> bool:
    try:
        return httpx.get(f"{url}/.well-known/openid-configuration").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def api(zookeeper: Server, issuer: str, tmp_path: Path) -> Iterator[ServedApi]:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secret").chmod(0o600)
    document = httpx.get(f"{issuer}/.well-known/openid-configuration").json()
    oidc: dict[str, Any] = {
        "issuer": document["issuer"],
        "client_id": "ocb",
        "client_secret_file": str(tmp_path / "secret"),
        "roles": {"ops": {"role": "operator"}},
        "scopes": ["openid", "profile", "groups"],
    }
    made = ServedApi(ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('provider')}"), tmp_path / "api", oidc=oidc)
    yield made
    made.close()


def signed_in(api: ServedApi, browser: httpx.Client, person: str) -> httpx.Response:
    """The answer of our server when a person comes back from the provider."""
    page = {"Ocb-Page": "1", "Origin": api.address}
    address = browser.post("/v1/session/oidc", headers=page).json()["address"]
    back = httpx.post(address, data={"sub": person})
    assert back.status_code in (302, 303), back.text
    return browser.get(back.headers["location"])


def test_a_person_signs_in_at_another_provider_and_a_guest_does_not(api: ServedApi) -> None:
    with httpx.Client(base_url=api.address, timeout=SECONDS) as browser:
        assert signed_in(api, browser, "guest-1").headers["location"] == "/#/signin?fault=denied"
        assert browser.get("/v1/session").json()["name"] is None
        assert signed_in(api, browser, "ann-1").headers["location"] == "/"
        found = browser.get("/v1/session").json()
        assert (found["name"], found["role"]) == ("oidc:ann", "operator")
        assert browser.get("/v1/nodes").status_code == 200
