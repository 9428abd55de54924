"""Tokens: the credentials of the API. A token is ``ocb_ID_SECRET``; its record keeps a hash of the secret.

The secret is 256 random bits. So SHA-256 is enough: no dictionary has such a secret, and a slow hash would only let
strangers load the server with wrong tokens. Pure.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from nodepool_ocb.model.ranges import Count, Moment
from nodepool_ocb.model.records import Record

ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
LONGEST_NAME: Final = 128
ISSUED: Final = "oidc:"  # how the names of people with a login of an issuer begin; no token has such a name
FORM: Final = r"ocb_([0-9a-f]{12})_([A-Za-z0-9_-]{43})"
_TOKEN: Final = re.compile(FORM)
LENGTH: Final = 60  # of a token
_ID: Final = re.compile(r"[0-9a-f]{12}")
_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+?)-----END CERTIFICATE-----")

TokenName = Annotated[
    str, Meta(pattern=r"^[^\s\x00-\x1f\x7f-\x9f]{1,128}\Z")
]  # the name of a person or a program: one word
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class TokenRole(StrEnum):
    """The operations that a token opens; the first three are the rights of people, each with those before it."""

    VIEWER = "viewer"  # reads
    OPERATOR = "operator"  # moves work
    ADMIN = "admin"  # deletes records, changes secrets, tokens and the cluster itself
    JOIN = "join"  # a machine registers, or creates its node
    REGISTER = "register"  # a machine registers and waits; for a token that each machine on a network can read
    NODE = "node"  # a machine reports about the nodes within its limits
    BOOT = "boot"  # the installer of one boot asks for its identity; no person makes such a token


class Token(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``tokens/<id>``: a credential of the API."""

    name: TokenName  # the journal names it as the author
    role: TokenRole
    digest: Digest  # SHA-256 of the secret
    deployments: tuple[str, ...] = ()  # with none and no selector, the token is without limits
    selector: str | None = None  # of nodes and noderoles
    reveal: bool = False  # secrets in plain text may be read
    life: Count | None = (
        None  # of a machine's own token: the epoch_base of its node; a later node of the name has another
    )
    certificate: bool = False  # a client certificate opens it; its fingerprint stands for the secret
    created: Moment = 0.0
    by: str | None = None
    expires: Moment | None = None
    used: Moment | None = None  # the last use, some minutes exact

    @property
    def limited(self) -> bool:
        """Whether it opens a part of the cluster only."""
        return bool(self.deployments) or self.selector is not None

    def valid(self, secret: str, now: float) -> bool:
        """Whether this is its secret and its end has not come; the comparison takes the same time for each text."""
        same = hmac.compare_digest(digest(secret), self.digest)
        return same and not self.ended(now)

    def ended(self, now: float) -> bool:
        """Whether its end has come."""
        return self.expires is not None and now >= self.expires


def digest(secret: str) -> str:
    """The hash that a record keeps.

    >>> digest("")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def text(id: str, secret: bytes) -> str:
    """The token as its holder keeps it.

    >>> text("00000000002a", bytes(32))[:22]
    'ocb_00000000002a_AAAAA'
    """
    return f"ocb_{id}_{base64.urlsafe_b64encode(secret).decode().rstrip('=')}"


def of_machine(fqdn: str) -> str:
    """The name of the token of a machine itself.

    >>> of_machine("n1.example.com")
    'machine:n1.example.com'
    """
    return f"machine:{fqdn}"[:LONGEST_NAME]


def split(token: str) -> tuple[str, str] | None:
    """The id and the secret of a token; None for another text.

    >>> split("ocb_00000000002a_" + "A" * 43)[0], split("secret")
    ('00000000002a', None)
    """
    found = _TOKEN.fullmatch(token)
    return (found[1], found[2]) if found else None


def of_certificate(der: bytes) -> tuple[str, str]:
    """The id and the secret of the token that a client certificate opens: its SHA-256, which no Bearer header can be.

    >>> id, secret = of_certificate(b"certificate")
    >>> is_id(id), secret.startswith(id), len(secret), split(f"ocb_{id}_{secret}")
    (True, True, 64, None)
    """
    fingerprint = hashlib.sha256(der).hexdigest()
    return fingerprint[: 2 * ID_BYTES], fingerprint


def der_of(pem: str) -> bytes:
    """The bytes of the first certificate in a PEM text. Raises ValueError with a sentence."""
    found = _PEM.search(pem)
    if found is None:
        raise ValueError("there is no certificate in it; give a file in PEM form, which begins with BEGIN CERTIFICATE")
    return base64.b64decode("".join(found[1].split()), validate=True)


def damage(text: str) -> str | None:
    """The fault of a text that begins as a token and is none; None for any other text. It repeats no letter of the text.

    >>> damage("ocb_00000000002a_AAA"), damage("secret"), damage("ocb_00000000002a_" + "A" * 43)
    ('the token is malformed: it has 20 letters, and a whole one 60; perhaps it was cut', None, None)
    """
    if not text.startswith("ocb_") or split(text) is not None:
        return None
    if len(text) == LENGTH:
        return "the token is malformed: it has a letter that no token has there"
    return f"the token is malformed: it has {len(text)} letters, and a whole one {LENGTH}; perhaps it was cut"


def is_id(text: str) -> bool:
    """Whether it may be the id of a token."""
    return _ID.fullmatch(text) is not None
