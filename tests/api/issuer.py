"""A provider of OpenID Connect over real HTTP: it signs tokens, checks the code flow with PKCE, and can be stopped."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from nodepool_ocb.testing.zookeeper.server import free_port

CLIENT: Final = "ocb"
LIFE_SECONDS: Final = 600.0


class Issuer:
    """One provider. ``people`` are the claims of the person who signs in next; ``fetches`` counts requests by path."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.claims: dict[str, Any] = {"sub": "ann-1", "preferred_username": "ann", "groups": ["ops"]}
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.fetches: dict[str, int] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.nonce: str | None = None  # in place of that of the sign-in
        self._server: ThreadingHTTPServer | None = None
        self.rotate()
        self.start()

    def start(self) -> None:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.answer(self, b"")

            def do_POST(self) -> None:
                issuer.answer(self, self.rfile.read(int(self.headers["content-length"])))

            def log_message(self, *_: Any) -> None:
                """Of no interest here."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def rotate(self) -> str:
        """A new key in place of all others; gives its id."""
        id = secrets.token_hex(4)
        self.keys = {id: rsa.generate_private_key(public_exponent=65537, key_size=2048)}
        return id

    def token(self, key: Any = None, algorithm: str = "RS256", kid: str | None = None, **claims: Any) -> str:
        """A signed token; a claim that is None is left out."""
        id, own = next(iter(self.keys.items()))
        now = time.time()
        found = {"iss": self.url, "aud": CLIENT, "exp": now + LIFE_SECONDS, "iat": now, **self.claims, **claims}
        found = {name: value for name, value in found.items() if value is not None}
        return jwt.encode(found, own if key is None else key, algorithm=algorithm, headers={"kid": kid or id})

    def answer(self, request: Any, body: bytes) -> None:
        parts = urlsplit(request.path)
        self.fetches[parts.path] = self.fetches.get(parts.path, 0) + 1
        query = {name: values[-1] for name, values in parse_qs(body.decode() or parts.query).items()}
        if parts.path == "/authorize":
            code = secrets.token_hex(8)
            self.codes[code] = query
            place = f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"
            return _send(request, 302, {}, {"Location": place})
        found: dict[str, Any] | None = {
            "/.well-known/openid-configuration": lambda: {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
            },
            "/keys": lambda: {"keys": [self._public(id) for id in self.keys]},
            "/token": lambda: self._exchanged(query, request.headers.get("authorization")),
        }.get(parts.path, lambda: None)()
        return _send(request, 400 if found is None else 200, found or {"error": "invalid_grant"}, {})

    def _public(self, id: str) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.keys[id].public_key()))
        return {**made, "kid": id, "use": "sig", "alg": "RS256"}

    def _exchanged(self, form: dict[str, str], authorization: str | None) -> dict[str, Any] | None:
        asked = self.codes.pop(form["code"], None)
        digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        expected = f"Basic {base64.b64encode(b'ocb:s%26cret').decode()}"
        if (
            asked is None
            or asked["code_challenge"] != digest
            or asked["redirect_uri"] != form["redirect_uri"]
            or authorization != expected
        ):
            return None
        return {"token_type": "Bearer", "id_token": self.token(nonce=self.nonce or asked["nonce"])}


def _send(request: Any, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
    content = json.dumps(body).encode()
    request.send_response(status)
    for name, value in {"content-type": "application/json", "content-length": str(len(content)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(content)
