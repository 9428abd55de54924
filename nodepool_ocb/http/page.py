"""A page of a daemon: it answers for all paths below a name (health.Pages serves them)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias


class PageResponse(NamedTuple):
    """The answer of a page; ``body`` is held in memory, so a page bounds it."""

    status: int
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({"Content-Type": "text/plain; charset=utf-8"})


#: Answers for everything below ``/NAME/``: it gets the rest of the path as it came, and the query. Called on a thread of
#: its own for each request; an exception is logged, and the client gets 500.
Page: TypeAlias = Callable[[str, Mapping[str, str]], PageResponse]
