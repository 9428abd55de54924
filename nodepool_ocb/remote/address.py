"""The address of an API server, as ``--api`` gives it."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.ranges import is_loopback

PORTS: Final = {"http": 80, "https": 443}
FORM: Final = "write https://HOST[:PORT], or for a server of this host http://127.0.0.1[:PORT]"


class ApiAddress(msgspec.Struct, frozen=True):
    """The parts of a URL; ``path`` is a prefix of all paths, without a slash at its end."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def url(self) -> str:
        """The URL in its one form, which names stored tokens.

        >>> parse("https://OCB.example.com/"), parse("http://[::1]:8077/ocb/").url
        (ApiAddress(scheme='https', host='ocb.example.com', port=443, path=''), 'http://[::1]:8077/ocb')
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def parse(url: str) -> ApiAddress:
    """Raises Invalid. Plain HTTP is for this host alone: a token would cross the network in plain text."""
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError as wrong:
        raise Invalid(f"--api {url}: {wrong}; {FORM}") from wrong
    if split.scheme not in PORTS or not split.hostname or split.query or split.fragment:
        raise Invalid(f"--api {url}: is no address of an API server; {FORM}")
    if split.username is not None or split.password is not None:
        raise Invalid("--api: a URL holds no token; store it with: nodepool-ocb login URL")
    if split.scheme == "http" and not is_loopback(split.hostname):
        raise Invalid(f"--api {url}: would send the token in plain text; write https://{split.hostname}")
    return ApiAddress(split.scheme, split.hostname, port or PORTS[split.scheme], split.path.rstrip("/"))
