"""A page of a daemon: it answers for all paths below a name (health.Pages serves them)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from nodepool_ocb.http.certificates import OwnCertificate


class PageResponse(NamedTuple):
    """The answer of a page; ``body`` is held in memory, so a page bounds it."""

    status: int
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({"Content-Type": "text/plain; charset=utf-8"})


#: Answers for everything below ``/NAME/``: it gets the rest of the path as it came, and the query. Called on a thread of
#: its own for each request; an exception is logged, and the client gets 500.
Page: TypeAlias = Callable[[str, Mapping[str, str]], PageResponse]


class PrivatePages(NamedTuple):
    """Pages by their names, for readers with a key of the cluster, over TLS alone.

    ``readers``: the public keys of the readers as they are now. It is called for each request on its thread, and may raise
    the errors of a read.
    """

    pages: Mapping[str, Page]
    certificate: OwnCertificate
    readers: Callable[[], Collection[str]]
