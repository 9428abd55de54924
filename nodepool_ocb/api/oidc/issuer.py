"""The issuer: its endpoints and keys, read when they are needed and kept; and the check of a token that it signed.

A key that is known serves on while the issuer is away, for an hour. An unknown one is looked for at most one time in some
seconds, so tokens with invented keys cost the issuer nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import jwt
import msgspec

from nodepool_ocb.api.oidc.fetching import MEANWHILE, fetch, split
from nodepool_ocb.config import OidcSettings
from nodepool_ocb.errors import Invalid, Unauthorized, Unavailable

#: The algorithms of signatures; none with a shared secret, and never "none".
ALGORITHMS: Final = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP",
}  # fmt: skip
FRESH_SECONDS: Final = 300.0  # that keys and endpoints are taken as they were read
KEPT_SECONDS: Final = 3600.0  # that keys serve while the issuer is away
PAUSE_SECONDS: Final = 2.0  # between two attempts to read them
FETCHES_SECONDS: Final = 12.0  # that a caller waits for two fetches, one after the other
LEEWAY_SECONDS: Final = 30.0  # between the clocks of the issuer and of ZooKeeper
MOST_KEYS: Final = 50
RSA_BITS: Final = range(2048, 8193)
LONGEST_TOKEN: Final = 16 * 1024
LONGEST_SUBJECT: Final = 1_000
DISCOVERY: Final = "/.well-known/openid-configuration"


class Endpoints(msgspec.Struct, frozen=True):
    """The addresses of the issuer that are used."""

    authorization: str
    token: str
    keys: str


class IssuerKey(msgspec.Struct, frozen=True):
    """A public key of the issuer; ``algorithm``: the only one that it serves, if it names one."""

    id: str | None
    kind: str
    algorithm: str | None
    key: Any


class IssuerRecords(msgspec.Struct, frozen=True):
    """The endpoints and the keys, as read at a time (monotonic)."""

    endpoints: Endpoints
    keys: tuple[IssuerKey, ...]
    at: float


class Issuer:
    """One issuer; thread-safe. A call may wait for it for some seconds."""

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self._reading = threading.Lock()
        self._read: IssuerRecords | None = None
        self._tried = -PAUSE_SECONDS  # the newest attempt (monotonic)
        self._fault: Unavailable | None = None  # of that attempt

    def endpoints(self) -> Endpoints:
        """Raises Unavailable."""
        return self._records(FRESH_SECONDS).endpoints

    def claims(self, text: str, audience: str, now: float) -> Mapping[str, Any]:
        """The claims of a signed token at ``now`` (ZooKeeper's time). Raises Unauthorized, and Unavailable without its key."""
        if len(text) > LONGEST_TOKEN:
            raise Unauthorized("the signed token is too long; it is not accepted")
        try:
            header = jwt.get_unverified_header(text)
            algorithm, key_id = header.get("alg"), header.get("kid")
            if algorithm not in ALGORITHMS or "crit" in header or not isinstance(key_id, str | None):
                raise Unauthorized("the signed token has an algorithm or a header that is not accepted")
            key = self._key(key_id, algorithm)
            found: Mapping[str, Any] = jwt.decode(
                text,
                key.key,
                algorithms=[algorithm],
                audience=audience,
                issuer=self.settings.issuer,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "verify_exp": False, "verify_nbf": False, "verify_iat": False,  # below, by ZooKeeper's time
                },
            )  # fmt: skip
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as wrong:
            raise Unauthorized(f"the signed token is not accepted: {_reason(wrong)}; sign in again") from wrong
        self._require_valid(found, now)
        return found

    def _require_valid(self, claims: Mapping[str, Any], now: float) -> None:
        """Raises Unauthorized."""
        for name in ("exp", "nbf", "iat"):
            value = claims.get(name, now)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise Unauthorized(f"the signed token is not accepted: {name} is no time; sign in again")
        if claims["exp"] + LEEWAY_SECONDS <= now:
            raise Unauthorized("the signed token is not accepted: it has expired; sign in again")
        if max(claims.get("nbf", now), claims.get("iat", now)) - LEEWAY_SECONDS > now:
            raise Unauthorized("the signed token is not accepted: it is not valid yet; compare the clocks")
        subject, party = claims["sub"], claims.get("azp")
        if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT:
            raise Unauthorized("the signed token is not accepted: sub is no name; sign in again")
        if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and party not in (None, self.settings.client_id):
            raise Unauthorized("the signed token is not accepted: it was made for another client; sign in again")

    # -- keys --

    def _key(self, id: str | None, algorithm: str) -> IssuerKey:
        """Raises Unauthorized without such a key, Unavailable if the issuer could not be asked for it."""
        found = _fitting(self._records(FRESH_SECONDS, stale=True).keys, id, algorithm)
        if found is None:
            found = _fitting(self._records(PAUSE_SECONDS).keys, id, algorithm)
        if found is None:
            raise Unauthorized("the signed token is not accepted: the issuer has no such key; sign in again")
        return found

    def _records(self, fresh_seconds: float, *, stale: bool = False) -> IssuerRecords:
        """The records, no older than ``fresh_seconds``; ``stale``: older ones serve while the issuer is away."""
        read, now = self._read, time.monotonic()
        if read is not None and now < read.at + fresh_seconds:
            return read
        if stale and read is not None and now < read.at + KEPT_SECONDS:
            self._renew_beside()
            return read
        if not self._reading.acquire(timeout=FETCHES_SECONDS):
            raise Unavailable(f"the issuer has not answered yet; {MEANWHILE}")
        try:
            self._renew(fresh_seconds)
        finally:
            self._reading.release()
        assert self._read is not None, "an attempt that failed raised"
        return self._read

    def _renew_beside(self) -> None:
        """Read them on a thread of its own, so that no caller with a known key waits for the issuer."""
        if time.monotonic() < self._tried + PAUSE_SECONDS or not self._reading.acquire(blocking=False):
            return

        def renew() -> None:
            try:
                with suppress(Unavailable):
                    self._renew(FRESH_SECONDS)
            finally:
                self._reading.release()

        threading.Thread(target=renew, name="oidc-keys", daemon=True).start()

    def _renew(self, fresh_seconds: float) -> None:
        """Read them, unless another thread just did. Raises Unavailable, as the newest attempt did if that was just now."""
        now = time.monotonic()
        if self._read is not None and now < self._read.at + fresh_seconds:
            return
        if now < self._tried + PAUSE_SECONDS:
            if self._fault is not None:
                raise Unavailable(str(self._fault)) from self._fault
            return
        self._tried, self._fault = now, None
        try:
            self._read = self._fetched()
        except Invalid as wrong:
            self._fault = Unavailable(f"{wrong}; {MEANWHILE}")
            raise self._fault from wrong
        except Unavailable as away:
            self._fault = away
            raise

    def _fetched(self) -> IssuerRecords:
        settings = self.settings
        document = fetch(settings.issuer.rstrip("/") + DISCOVERY, settings.ca)
        if document.get("issuer") != settings.issuer:
            raise Invalid("the issuer's document names another issuer than api.oidc.issuer; make both the same")
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        for name in names:
            split(document.get(name), f"{name} of the issuer")
        endpoints = Endpoints(*(document[name] for name in names))
        return IssuerRecords(endpoints, _keys(fetch(endpoints.keys, settings.ca)), time.monotonic())


def _keys(document: Mapping[str, Any]) -> tuple[IssuerKey, ...]:
    """The public keys of signatures in a JWK set; all others are left out."""
    listed = document.get("keys")
    found = []
    for each in listed[:MOST_KEYS] if isinstance(listed, list) else ():
        if not isinstance(each, dict) or each.get("kty") not in ALGORITHMS.values() or each.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK.from_dict(each).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        if each["kty"] == "RSA" and getattr(key, "key_size", 0) not in RSA_BITS:
            continue
        id, algorithm = each.get("kid"), each.get("alg")
        found.append(IssuerKey(id if isinstance(id, str) else None, each["kty"], algorithm, key))
    return tuple(found)


def _fitting(keys: tuple[IssuerKey, ...], id: str | None, algorithm: str) -> IssuerKey | None:
    """The one key with this id that serves the algorithm."""
    kind = ALGORITHMS[algorithm]
    found = [each for each in keys if each.kind == kind and each.algorithm in (None, algorithm)]
    if id is not None:
        found = [each for each in found if each.id == id]
    return found[0] if len(found) == 1 else None


def _reason(wrong: Exception) -> str:
    """A sentence about a refusal, which repeats nothing of the token."""
    reasons = {
        jwt.InvalidAudienceError: "it was made for another audience",
        jwt.InvalidIssuerError: "it is of another issuer",
        jwt.InvalidSignatureError: "its signature is wrong",
        jwt.MissingRequiredClaimError: "a claim is missing",
    }
    return next((text for kind, text in reasons.items() if isinstance(wrong, kind)), "it is malformed")
