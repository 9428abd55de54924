"""Leftovers of clients: locks of requests that are gone, and znodes without data among the nodes.

Nodepool's and Zuul's clients delete a request and leave its lock. A client that locks a node while it is deleted makes its znode
anew, without data. A leftover is deleted by any launcher at a sweep, if no client holds or wants a lock there.
"""

from __future__ import annotations

from typing import Final

from nodepool_ocb.store.pool.cache import PoolCache
from nodepool_ocb.store.pool.nodes import NodeWriter
from nodepool_ocb.store.pool.requests import RequestWriter
from nodepool_ocb_launcher.context import LauncherContext

MOST: Final = 100  # of each kind in one sweep
EMPTY_SECONDS: Final = 10.0  # a client may be about to write the data


class Leftovers:
    """Call it on the turn thread."""

    def __init__(self, context: LauncherContext, cache: PoolCache) -> None:
        self._session, self._cache = context.session, cache
        self._requests = RequestWriter(context.session, context.locks, context.holder)
        self._nodes = NodeWriter(context.session, context.locks, context.holder)
        self._strays: frozenset[str] = frozenset()  # of the former sweep

    def sweep(self) -> None:
        """Delete the locks that were leftovers in the former sweep, too, and old znodes without data. Raises Unavailable."""
        before, self._strays = self._strays, self._cache.strays
        self._requests.sweep(sorted(before & self._strays)[:MOST])
        now = self._session.now()
        empty = [name for name, created in self._cache.nodes.empty.items() if now >= created + EMPTY_SECONDS]
        for name in empty[:MOST]:
            self._nodes.delete_empty(name)
