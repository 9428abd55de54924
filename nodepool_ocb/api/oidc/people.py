"""People with a login of the issuer: the check of their signed tokens, and the sign-in of the page.

The sign-in is the authorization code flow with PKCE, a state and a nonce. These three are in a cookie of the browser, so any
server may get the answer. The signed token of the issuer is the cookie of the session.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from nodepool_ocb.api.oidc.claims import actor_id, granted
from nodepool_ocb.api.oidc.fetching import fetch, split
from nodepool_ocb.api.oidc.issuer import Issuer
from nodepool_ocb.config import OidcSettings
from nodepool_ocb.errors import Denied, Invalid, Unauthorized
from nodepool_ocb.model.tokens import Token

WORKERS: Final = 4  # that may wait for the issuer; operations have threads of their own
LONGEST_COOKIE: Final = 3_800  # a browser keeps 4,096 bytes, with the cookie's name and its attributes
LONGEST_CODE: Final = 4_096
MOST_SECRET_BYTES: Final = 4_096
FLOW_SECONDS: Final = 600  # that a person may take at the issuer
OTHERS_READ: Final = 0o007


class SignedPerson(msgspec.Struct, frozen=True):
    """The holder of a signed token: the id, the rights as those of a token, and the claims that they come from."""

    id: str
    token: Token
    claims: Mapping[str, Any]


class BegunSignIn(msgspec.Struct, frozen=True):
    """A sign-in that a browser has begun. ``cookie`` and ``of_cookie`` carry it in the browser."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> BegunSignIn:
        """One that no other browser can know."""
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))

    @classmethod
    def of_cookie(cls, text: str | None) -> BegunSignIn:
        """Raises Unauthorized for a browser that has begun none."""
        parts = (text or "").split(".")
        if len(parts) != 3 or not all(parts):
            raise Unauthorized("this browser has begun no sign-in, or has taken too long; begin it again")
        return cls(*parts)

    @property
    def cookie(self) -> str:
        """The text for the browser."""
        return f"{self.state}.{self.nonce}.{self.verifier}"

    @property
    def challenge(self) -> str:
        """The digest of the verifier, by which the issuer knows this browser's server again."""
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).decode().rstrip("=")


class OidcPeople:
    """The logins of one issuer; thread-safe. Every call may wait for the issuer."""

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self.issuer = Issuer(settings)
        self.threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="oidc")

    def person(self, text: str, now: float) -> SignedPerson:
        """The holder of a signed token of a program, or of a session. Raises Unauthorized, Denied, Unavailable."""
        settings = self.settings
        try:
            return self._person(self.issuer.claims(text, settings.audience or settings.client_id, now))
        except Unauthorized:
            if settings.audience in (None, settings.client_id):
                raise
        return self._person(self.issuer.claims(text, settings.client_id, now))  # of a session of the page

    def _person(self, claims: Mapping[str, Any]) -> SignedPerson:
        return SignedPerson(actor_id(self.settings.issuer, claims), granted(self.settings, claims), claims)

    def still(self, token: Token, claims: Mapping[str, Any]) -> bool:
        """Whether the claims give the same rights by the present configuration."""
        try:
            return granted(self.settings, claims) == token
        except Denied:
            return False

    # -- the sign-in of the page --

    def address(self, begun: BegunSignIn, back: str) -> str:
        """The address at the issuer to which a person goes; ``back``: the one to come back to. Raises Unavailable."""
        endpoint = self.issuer.endpoints().authorization
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": back,
            "scope": " ".join(self.settings.scopes),
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": begun.challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    def signed_in(self, begun: BegunSignIn, query: Mapping[str, str], back: str, now: float) -> str:
        """The signed token for the session, from the issuer's answer. Raises Unauthorized, Denied, Unavailable, Invalid."""
        if not hmac.compare_digest(query.get("state", "").encode(), begun.state.encode()):
            raise Unauthorized("this answer belongs to another sign-in; begin it again")
        if query.get("iss", self.settings.issuer) != self.settings.issuer:
            raise Unauthorized("this answer is of another issuer; begin the sign-in again")
        code = query.get("code", "")
        if not code or len(code) > LONGEST_CODE:
            raise Denied("the issuer has not signed this person in; begin the sign-in again")
        text = self._exchanged(code, begun, back)
        claims = self.issuer.claims(text, self.settings.client_id, now)
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), begun.nonce.encode()):
            raise Unauthorized("the issuer's token belongs to another sign-in; begin it again")
        self._person(claims)
        if len(text) > LONGEST_COOKIE:
            raise Invalid(
                f"the issuer's ID token has {len(text)} bytes, and a cookie holds {LONGEST_COOKIE}: let the issuer send fewer"
                " claims, or sign in with a token"
            )
        return text

    def _exchanged(self, code: str, begun: BegunSignIn, back: str) -> str:
        """The ID token for a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "client_id": self.settings.client_id,
            "code_verifier": begun.verifier,
        }
        headers = {}
        if self.settings.client_secret_file is not None:
            words = quote(self.settings.client_id, safe=""), quote(_secret(self.settings.client_secret_file), safe="")
            headers["Authorization"] = f"Basic {base64.b64encode(':'.join(words).encode()).decode()}"
        answer = fetch(self.issuer.endpoints().token, self.settings.ca, urlencode(form).encode(), headers)
        text = answer.get("id_token")
        if not isinstance(text, str):
            raise Unauthorized("the issuer gave no ID token; let api.oidc.scopes have openid")
        return text


def require_usable(settings: OidcSettings) -> None:
    """For the start of a server, without a word to the issuer. Raises Invalid."""
    split(settings.issuer, "api.oidc.issuer")
    if settings.url is not None:
        split(settings.url, "api.oidc.url")
    if settings.client_secret_file is not None:
        _secret(settings.client_secret_file)


def _secret(file: str) -> str:
    """The client's secret, read at each use. Raises Invalid; no message repeats it."""
    try:
        with open(file, "rb") as opened:
            if os.fstat(opened.fileno()).st_mode & OTHERS_READ:
                raise Invalid(
                    f"api.oidc.client_secret_file: {file}: all users of the host can read it; chmod o= {file}"
                )
            text = opened.read(MOST_SECRET_BYTES).decode().strip()
    except (OSError, UnicodeError) as wrong:
        raise Invalid(f"api.oidc.client_secret_file: {file}: cannot be read; let the server's user read it") from wrong
    if not text:
        raise Invalid(f"api.oidc.client_secret_file: {file}: is empty; write the client's secret into it")
    return text
