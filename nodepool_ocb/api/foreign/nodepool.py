"""Nodepool's pages, as Nodepool 11's web application gives them: a table as text, or JSON by the Accept header.

They need the role viewer, and no limits; with ``api.open_pages`` they need no token, as in Nodepool. The records are read for a
request, and shown for a second, so that many readers cost ZooKeeper one read a second.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
from litestar import Request, Response, route
from rich.cells import cell_len

from nodepool_ocb.api import hosts
from nodepool_ocb.api.actor import require_right
from nodepool_ocb.api.performing import HttpCaller
from nodepool_ocb.api.requests import Desk
from nodepool_ocb.errors import Denied, Invalid, Unavailable
from nodepool_ocb.operations.images.reading import ImageList, UploadList
from nodepool_ocb.operations.leases.reading import LeaseList
from nodepool_ocb.operations.operation import Call, Lookup, Operation
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.operations.pools.reading import PoolList
from nodepool_ocb.operations.reads.images import FoundImages, ReadImages
from nodepool_ocb.operations.reads.pools import ReadPool
from nodepool_ocb.operations.requests.reading import RequestList
from nodepool_ocb.telemetry import terminal_escape
from nodepool_ocb.views.foreign import nodepool11 as rows
from nodepool_ocb.views.foreign.nodepool11 import PageTable

KEPT_SECONDS: Final = 1.0
MOST_FIELDS: Final = 100
TEXT, JSON = "text/plain", "application/json"
OFFERED: Final = ["text/html", "text/plain", JSON]
READY: Final = "/ready"


class NodepoolPage(msgspec.Struct, frozen=True):
    """A page: the operation with the right to its records, their lookup, and the rows that they make."""

    operation: type[Operation[Any]]
    lookup: Lookup[Any]
    rows: Callable[[Any, float], PageTable]


PAGES: Final = {
    "/image-list": NodepoolPage(UploadList, ReadImages(), rows.upload_rows),
    "/dib-image-list": NodepoolPage(ImageList, ReadImages(), rows.build_rows),
    "/image-status": NodepoolPage(ImageList, ReadImages(), rows.image_rows),
    "/node-list": NodepoolPage(LeaseList, ReadPool(), rows.node_rows),
    "/request-list": NodepoolPage(RequestList, ReadPool(), rows.request_rows),
    "/label-list": NodepoolPage(PoolList, ReadPool(), rows.label_rows),
}


def handlers(desk: Desk) -> list[Any]:
    """All routes of Nodepool."""
    kept = {each.lookup: KeptRecords(desk, each.lookup) for each in PAGES.values()}
    return [_ready(desk), *(_page(desk, path, page, kept[page.lookup]) for path, page in PAGES.items())]


class KeptRecords:
    """The records of a lookup, read at most one time a second; thread-safe."""

    def __init__(self, desk: Desk, lookup: Lookup[Any]) -> None:
        self._desk, self._lookup = desk, lookup
        self._reading = threading.Lock()
        self._kept: tuple[float, Any] | None = None  # when (monotonic), and the records

    def read(self, deadline: float) -> Any:
        """The records; raises Unavailable, TimedOut at the deadline (monotonic)."""
        if not self._reading.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise Unavailable("another request reads these records, and has not ended; try again")
        try:
            if self._kept is None or time.monotonic() > self._kept[0] + KEPT_SECONDS:
                self._kept = None
                performer = Performer(
                    Call(login="-", host="-"),
                    HttpCaller(lambda _: None, agreed=False),
                    lambda: self._desk.records.settings,
                    deadline,
                )
                self._kept = time.monotonic(), performer.read(iter(self._lookup), self._desk.records.session)
            found = self._kept[1]
            return found.by_name if isinstance(found, FoundImages) else found.view
        finally:
            self._reading.release()


def _ready(desk: Desk) -> Any:
    @route(READY, http_method=["GET"], status_code=200)
    async def ready(request: Request[Any, Any, Any]) -> Response[Any]:
        hosts.require_host(request.headers.get("host"), desk.known_hosts())
        if not desk.records.trusted:
            raise Unavailable("ZooKeeper does not answer this server; try again")
        return Response("OK", media_type=TEXT)

    return ready


def _page(desk: Desk, path: str, page: NodepoolPage, kept: KeptRecords) -> Any:
    @route(path, http_method=["GET"], status_code=200)
    async def show(request: Request[Any, Any, Any]) -> Response[Any]:
        headers = await _admitted(desk, request, page.operation)
        fields = [each for each in request.query_params.get("fields", "").split(",") if each]
        if len(fields) > MOST_FIELDS:
            raise Invalid(f"fields names more than {MOST_FIELDS}; the keys of the JSON are all there are")
        as_json = request.accept.best_match(OFFERED) == JSON
        node = request.query_params.get(rows.NODE_ID) if page.rows is rows.node_rows else None
        deadline = desk.deadline()

        def made() -> str:
            now = time.time()
            found = page.rows(kept.read(deadline), now)
            if node:
                found = PageTable(found.headers, [each for each in found.rows if each["id"] == node])
            return json.dumps(found.rows) if as_json else rows.table(found, fields, now, _shown)

        return Response(await desk.run(made, deadline), media_type=JSON if as_json else TEXT, headers=headers)

    return show


async def _admitted(desk: Desk, request: Request[Any, Any, Any], kind: type[Operation[Any]]) -> dict[str, str]:
    """The headers of the answer. Raises the errors of a missing token or right, and Denied for a token with limits."""
    if desk.records.settings.api.open_pages:
        hosts.require_host(request.headers.get("host"), desk.known_hosts())
        return {"Access-Control-Allow-Origin": "*"}
    actor = await desk.actor(request)
    require_right(actor, kind)
    if actor.limits is not None:
        raise Denied(f"{kind.title()} concerns the whole cluster, and this token has limits; use one without limits")
    return {}


def _shown(text: str) -> tuple[str, int]:
    """A line without characters that act on a terminal, and its width."""
    safe = terminal_escape.visible(text)
    return safe, cell_len(safe)
