"""Who calls: the token of a request, and the delay after failed logins of an address.

A valid token is never delayed, so that strangers behind one address cannot lock its people out. The delay keeps guesses and the
load that they make small; a secret of 256 bits cannot be guessed in any case. So many failures wait at a time, of one address and
of all; beyond that, a failure is answered at once, and its connection ends.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Final

from nodepool_ocb.errors import Unauthorized
from nodepool_ocb.model import tokens

FIRST_DELAY_SECONDS: Final = 0.1
LONGEST_DELAY_SECONDS: Final = 5.0
FORGIVEN_SECONDS: Final = 60.0
MOST_ADDRESSES: Final = 10_000
MOST_DELAYED: Final = 10  # of one address, at a time
SHARE: Final = 4  # of all: this part of the connections of a server

#: The cookie of a person who is signed in to the page; a browser takes the second name only from a server with TLS.
COOKIE: Final = "ocb_session"
SECURE_PREFIX: Final = "__Host-"
SECURE_COOKIE: Final = f"{SECURE_PREFIX}{COOKIE}"
FLOW_COOKIE: Final = "ocb_signin"  # of a sign-in that waits for the answer of an issuer
LONGEST_FLOW: Final = 200

ANYONE: Final = "anyone"  # in place of an id: the request has no credential, and needs none
SIGNED: Final = ""  # in place of an id: the secret is a token that an issuer signed

_IN_ADDRESS: Final = re.compile(r"ocb_[0-9a-f]{12}_|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+")
_SIGNED: Final = re.compile(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")

WANTED: Final = "send `Authorization: Bearer TOKEN`; `nodepool-ocb token create` makes one"


def bearer(header: str | None) -> tuple[str, str]:
    """The id and the secret in an Authorization header; ``SIGNED`` and the text of a signed token.

    Raises Unauthorized; no message repeats the header.

    >>> bearer("Bearer ocb_00000000002a_" + "A" * 43)[0]
    '00000000002a'
    """
    if header is None:
        raise Unauthorized(f"the request has no token; {WANTED}")
    scheme, _, text = header.partition(" ")
    found = _credential(text.strip()) if scheme.lower() == "bearer" else None
    if found is None:
        fault = tokens.damage(text.strip()) or "the Authorization header has no token of this project"
        raise Unauthorized(f"{fault}; {WANTED}")
    return found


def _credential(text: str) -> tuple[str, str] | None:
    """The id and the secret of a token of ours, or ``SIGNED`` and a text of the form of a signed token."""
    return tokens.split(text) or ((SIGNED, text) if _SIGNED.fullmatch(text) else None)


def parted(text: str) -> tuple[str, str]:
    """The id and the secret of a token that a person typed. Raises Unauthorized; no message repeats it."""
    found = tokens.split(text)
    if found is None:
        fault = tokens.damage(text) or "this is no token"
        raise Unauthorized(f"{fault}; a token begins with ocb_, and `nodepool-ocb token create` prints it")
    return found


def require_no_token_in(query: str) -> None:
    """Raises Unauthorized for a token in an address, which browsers and proxies write down.

    >>> require_no_token_in("selector=state:error")
    """
    if _IN_ADDRESS.search(query):
        raise Unauthorized(
            "the address has a token, which is in logs from now on: revoke it with `nodepool-ocb token revoke`, and send"
            " another one in the Authorization header"
        )


# -- sessions of the page --


def cookie(text: str, *, secure: bool) -> str:
    """The Set-Cookie header of a session with this token; an empty one ends the session.

    >>> cookie("", secure=False)
    'ocb_session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0'
    """
    parts = [f"{SECURE_COOKIE if secure else COOKIE}={text}", "Path=/", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, *(["Secure"] if secure else []), *([] if text else ["Max-Age=0"])])


def of_session(header: str | None, *, secure: bool) -> tuple[str, str] | None:
    """The id and the secret in a Cookie header, or ``SIGNED`` and a signed token; None without a session.

    >>> plain = "theme=dark; ocb_session=ocb_00000000002a_" + "A" * 43
    >>> of_session(plain, secure=False)[0], of_session("ocb_session=x", secure=False), of_session(None, secure=False)
    ('00000000002a', None, None)
    >>> of_session(plain, secure=True), of_session(plain + "; __Host-ocb_session=ocb_00000000002b_" + "A" * 43, secure=True)[0]
    (None, '00000000002b')
    """
    return next((found for text in _cookies(header, COOKIE, secure) if (found := _credential(text)) is not None), None)


def of_flow(header: str | None, *, secure: bool) -> str | None:
    """The sign-in in a Cookie header that waits for the answer of an issuer.

    >>> of_flow("a=b; ocb_signin=s.n.v", secure=False), of_flow(None, secure=False)
    ('s.n.v', None)
    >>> of_flow("ocb_signin=s.n.v", secure=True), of_flow("ocb_signin=s.n.v; __Host-ocb_signin=t.n.v", secure=False)
    (None, 't.n.v')
    """
    return next((text.strip('"') for text in _cookies(header, FLOW_COOKIE, secure) if len(text) <= LONGEST_FLOW), None)


def _cookies(header: str | None, wanted: str, secure: bool) -> Iterator[str]:
    """The values of a cookie, first those with the prefix: another host of the domain can set the others only.

    ``secure``: only those with the prefix. Behind a proxy with TLS, a server may not know that its browsers use TLS.
    """
    parts = [part.strip().partition("=")[::2] for part in (header or "").split(";")]
    for key in (f"{SECURE_PREFIX}{wanted}",) if secure else (f"{SECURE_PREFIX}{wanted}", wanted):
        yield from (text for name, text in parts if name == key)


# -- failures --


class FailedLogins:
    """The failures by address; on one thread. ``most``: failures that wait for their answer at a time."""

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self._delayed: Counter[str] = Counter()  # by address
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how many, and when the last came

    async def delayed(self, address: str) -> bool:
        """Note a failure and wait before its answer; False at once if too many wait."""
        seconds = self.failed(address, time.monotonic())
        if self._delayed[address] >= MOST_DELAYED or self._delayed.total() >= self._most:
            return False
        self._delayed[address] += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._delayed -= Counter((address,))
        return True

    def failed(self, address: str, now: float) -> float:
        """Note a failure at ``now`` (monotonic); gives the seconds before its answer.

        >>> logins = FailedLogins(1)
        >>> [logins.failed("192.0.2.1", 0.0) for _ in range(4)], logins.failed("192.0.2.2", 0.0)
        ([0.1, 0.2, 0.4, 0.8], 0.1)
        >>> logins.failed("192.0.2.1", 100.0)
        0.1
        """
        count, last = self._failures.pop(address, (0, now))
        count = 1 if now - last > FORGIVEN_SECONDS else count + 1
        self._failures[address] = (count, now)
        while len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)
        return min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * float(1 << min(count - 1, 10)))
