"""An issuer that is slow, large, evasive or away: each answer is bounded, and a known key serves on."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from nodepool_ocb.api.oidc import fetching
from nodepool_ocb.api.oidc import issuer as issuers
from nodepool_ocb.api.oidc.fetching import fetch, split
from nodepool_ocb.api.oidc.issuer import Issuer
from nodepool_ocb.config import OidcRole, OidcSettings
from nodepool_ocb.errors import Invalid, Unauthorized, Unavailable
from nodepool_ocb.testing.processes import await_that
from tests.api.issuer import CLIENT
from tests.api.issuer import Issuer as Provider


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.stop()


def ours(provider: Provider) -> Issuer:
    return Issuer(OidcSettings(issuer=provider.url, client_id=CLIENT, roles={"ops": OidcRole(role="viewer")}))


def test_a_known_key_serves_while_the_issuer_is_away_and_no_longer_than_it_may(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuers, "PAUSE_SECONDS", 0.0)
    issuer, token = ours(provider), provider.token()
    assert issuer.claims(token, CLIENT, time.time())["sub"] == "ann-1"
    provider.stop()
    monkeypatch.setattr(issuers, "FRESH_SECONDS", 0.0)
    assert issuer.claims(token, CLIENT, time.time())["sub"] == "ann-1"
    monkeypatch.setattr(issuers, "KEPT_SECONDS", 0.0)
    with pytest.raises(Unavailable, match="sign in with a token meanwhile"):
        issuer.claims(token, CLIENT, time.time())


def test_a_key_that_the_issuer_withdrew_is_forgotten(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "PAUSE_SECONDS", 0.0)
    issuer, token = ours(provider), provider.token()
    issuer.claims(token, CLIENT, time.time())
    provider.rotate()
    monkeypatch.setattr(issuers, "FRESH_SECONDS", 0.0)

    def refused() -> bool:
        with suppress(Unauthorized):
            issuer.claims(token, CLIENT, time.time())
            return False
        return True

    await_that(refused, 20.0, "the former key is gone")


def test_tokens_with_invented_keys_cost_the_issuer_nothing(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "PAUSE_SECONDS", 600.0)
    issuer, token = ours(provider), provider.token(kid="invented")
    for _ in range(20):
        with pytest.raises(Unauthorized, match="no such key"):
            issuer.claims(token, CLIENT, time.time())
    assert sum(provider.fetches.values()) == 2, "its document and its keys, one time"


def test_a_document_of_another_issuer_is_refused(provider: Provider) -> None:
    issuer = Issuer(OidcSettings(issuer=f"http://localhost:{provider.port}", client_id=CLIENT, roles={}))
    with pytest.raises(Unavailable, match="names another issuer"):
        issuer.endpoints()


class Raw:
    """A server that answers each request with the same bytes, and then stays silent."""

    def __init__(self, content: bytes) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self._content = content
        self.requests = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.requests += 1
                with closing(connection), suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(self._content)
                    connection.recv(65536)  # until the client closes

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "does not answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "does not answer"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (fetching.MOST_BYTES + 1), "more than"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "status 302"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "no JSON object"),
        (b"nonsense\r\n\r\n", "does not answer"),
    ],
    ids=["silent", "short", "large", "redirect", "list", "nonsense"],
)
def test_an_answer_of_another_form_or_size_is_refused_in_time(
    content: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "FETCH_SECONDS", 0.5)
    server = Raw(content)
    began = time.monotonic()
    try:
        with pytest.raises(Unavailable, match=reason):
            fetch(server.url, None)
    finally:
        server.close()
    assert time.monotonic() - began < 20


def test_an_issuer_that_fails_is_left_alone_for_a_while(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "PAUSE_SECONDS", 600.0)
    server = Raw(b"HTTP/1.1 500 Fault\r\nContent-Length: 0\r\n\r\n")
    issuer = Issuer(OidcSettings(issuer=server.url, client_id=CLIENT, roles={}))
    try:
        for _ in range(5):
            with pytest.raises(Unavailable, match="status 500"):
                issuer.claims(provider.token(), CLIENT, time.time())
    finally:
        server.close()
    assert server.requests == 1


@pytest.mark.parametrize(
    "url", ["http://sso.example.com", "ftp://127.0.0.1", "https://", "https://a:b", "https://é", 5]
)
def test_an_address_without_tls_or_of_another_form_is_refused(url: object) -> None:
    with pytest.raises(Invalid, match="the address"):
        split(url, "the address")
