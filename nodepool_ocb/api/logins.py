"""Who calls: the token of a request, and the delay after failed logins of an address.

A valid token is never delayed, so that strangers behind one address cannot lock its people out. The delay keeps guesses and the
load that they make small; a secret of 256 bits cannot be guessed in any case.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Final

from nodepool_ocb.errors import Unauthorized
from nodepool_ocb.model import tokens

FIRST_DELAY_SECONDS: Final = 0.1
LONGEST_DELAY_SECONDS: Final = 5.0
FORGIVEN_SECONDS: Final = 60.0
MOST_ADDRESSES: Final = 10_000

#: The cookie of a person who is signed in to the page; a browser takes the second name only from a server with TLS.
COOKIE: Final = "ocb_session"
SECURE_PREFIX: Final = "__Host-"
SECURE_COOKIE: Final = f"{SECURE_PREFIX}{COOKIE}"
FLOW_COOKIE: Final = "ocb_signin"  # of a sign-in that waits for the answer of an issuer
LONGEST_FLOW: Final = 200

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
        raise Unauthorized(f"the Authorization header has no token of this project; {WANTED}")
    return found


def _credential(text: str) -> tuple[str, str] | None:
    """The id and the secret of a token of ours, or ``SIGNED`` and a text of the form of a signed token."""
    return tokens.split(text) or ((SIGNED, text) if _SIGNED.fullmatch(text) else None)


def parted(text: str) -> tuple[str, str]:
    """The id and the secret of a token that a person typed. Raises Unauthorized; no message repeats it."""
    found = tokens.split(text)
    if found is None:
        raise Unauthorized("this is no token; a token begins with ocb_, and `nodepool-ocb token create` prints it")
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


def of_session(header: str | None) -> tuple[str, str] | None:
    """The id and the secret in a Cookie header, or ``SIGNED`` and a signed token; None without a session.

    >>> of_session("theme=dark; ocb_session=ocb_00000000002a_" + "A" * 43)[0], of_session("ocb_session=x"), of_session(None)
    ('00000000002a', None, None)
    """
    for part in (header or "").split(";"):
        name, _, text = part.strip().partition("=")
        if name in (COOKIE, SECURE_COOKIE) and (found := _credential(text)) is not None:
            return found
    return None


def of_flow(header: str | None) -> str | None:
    """The sign-in in a Cookie header that waits for the answer of an issuer.

    >>> of_flow("a=b; ocb_signin=s.n.v"), of_flow(None)
    ('s.n.v', None)
    """
    for part in (header or "").split(";"):
        name, _, text = part.strip().partition("=")
        if name.removeprefix(SECURE_PREFIX) == FLOW_COOKIE and len(text) <= LONGEST_FLOW:
            return text.strip('"')
    return None


# -- failures --


class FailedLogins:
    """The failures by address; on one thread."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how many, and when the last came

    def failed(self, address: str, now: float) -> float:
        """Note a failure at ``now`` (monotonic); gives the seconds before its answer.

        >>> logins = FailedLogins()
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
