"""The checks of the Host and Origin headers: a page of another site must not reach the API through a browser. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from nodepool_ocb.errors import Denied, Invalid

LOCAL: Final = frozenset({"localhost"})
READS: Final = frozenset({"GET", "HEAD"})
#: The Sec-Fetch-Site of a request of the page itself, and of an address that a person typed.
OWN: Final = frozenset({"same-origin", "none"})
PAGE_HEADER: Final = "ocb-page"  # a page of another site cannot send it without asking the server, which never agrees
CLIENT_HEADER: Final = "ocb-client"  # the same of a program with a client certificate


def host_of(header: str) -> str:
    """The name in a Host header, without its port.

    >>> host_of("api.example.com:9480"), host_of("[::1]:9480"), host_of("API.example.com.")
    ('api.example.com', '::1', 'api.example.com')
    """
    try:
        found = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""
    return found.rstrip(".").lower()


def require_host(header: str | None, known: Collection[str]) -> None:
    """Raises Invalid unless the Host header is an address, localhost or a ``known`` name.

    A name that an attacker's DNS points at this server is none of these; an address cannot be such a name.
    """
    name = host_of(header or "")
    if name in LOCAL or name in known or _is_address(name):
        return
    raise Invalid(
        f"the Host header names {name[:100] or 'nothing'}, which is no name of this server; add it to api.hosts"
    )


def require_origin(origin: str | None, host: str | None) -> None:
    """Raises Denied for a request that a page of another site sent."""
    if origin is None or (host is not None and origin.partition("//")[2].lower() == host.lower()):
        return
    raise Denied(
        "a page of another site sent this request; the API takes requests only from its own pages and from programs"
    )


def require_own_page(method: str, headers: Mapping[str, str]) -> None:
    """Raises Denied for a request with the cookie of a session that the page itself did not send.

    A browser adds the cookie to a request by itself. So a read must not come from another site, and any other method must
    have the page's header, and an origin that the browser states.
    """
    site = headers.get("sec-fetch-site")
    if site is not None and site not in OWN:
        raise Denied("a page of another site sent this request with the cookie of a session; it is refused")
    if method in READS:
        return
    if PAGE_HEADER not in headers or (site is None and headers.get("origin") is None):
        raise Denied(
            "a request with the cookie of a session needs the headers Ocb-Page and Origin, as the page sends them; a program"
            " sends `Authorization: Bearer TOKEN` instead"
        )
    require_origin(headers.get("origin"), headers.get("host"))


def require_own_program(method: str, headers: Mapping[str, str]) -> None:
    """Raises Denied for a request with a client certificate that a page of another site may have sent.

    A browser adds the certificate by itself. So a write has a header that no page may send to another site: ``Ocb-Client``, or
    that of the page.
    """
    site = headers.get("sec-fetch-site")
    if site is not None and site not in OWN:
        raise Denied("a page of another site sent this request with a client certificate; it is refused")
    if method not in READS and CLIENT_HEADER not in headers and PAGE_HEADER not in headers:
        raise Denied(
            "a write with a client certificate needs the header Ocb-Client with any text, as `-H 'Ocb-Client: curl'`"
        )


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
