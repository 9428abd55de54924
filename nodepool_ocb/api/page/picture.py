"""``GET /v1/graph/picture``: a part of the graph with its drawing, for the page.

Its ETag is that of the world, so an unchanged graph is neither read nor drawn again. Without a drawing the answer has the boxes,
the arrows and the reason.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, route

from nodepool_ocb.api.actor import Actor, require_right
from nodepool_ocb.api.asking import query_of
from nodepool_ocb.api.page.drawing import Drawer, Undrawn
from nodepool_ocb.api.performing import OperationOrder, perform, world_version
from nodepool_ocb.api.reading import FoundDocument, answered
from nodepool_ocb.api.requests import Desk, min_zxid, versions
from nodepool_ocb.api.routes import PICTURE_PATH
from nodepool_ocb.errors import TimedOut
from nodepool_ocb.operations.records.graph import GraphDraw
from nodepool_ocb.views.graphs import excerpt
from nodepool_ocb.views.view import public

THREADS: Final = 4


class PictureQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of the graph: the roles, or the neighbourhood of one noderole."""

    deployment: str | None = None
    around: str | None = None  # ROLE@FQDN
    selector: str | None = None
    steps: Annotated[int, msgspec.Meta(ge=1, le=excerpt.MOST_STEPS)] = 2  # from the noderole


def handler(desk: Desk) -> Any:
    """The route; it draws on threads of its own, since ``dot`` may take seconds."""
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="api-graphs")
    drawer = Drawer()

    @route(PICTURE_PATH, http_method=["GET"], status_code=200)
    async def picture(request: Request[Any, Any, Any]) -> Response[Any]:
        actor = await desk.actor(request)
        require_right(actor, GraphDraw)
        query = query_of(request, PictureQuery, "a picture")
        operation = GraphDraw(deployment=query.deployment, around=query.around, selector=query.selector)
        order = OperationOrder(operation=operation, deadline=desk.deadline(), min_zxid=min_zxid(request))
        known = versions(request.headers.get("if-none-match"))
        found = await desk.run(lambda: _found(desk, drawer, actor, order, (query, known)), order.deadline, threads)
        return answered(found)

    return picture


def _found(
    desk: Desk, drawer: Drawer, actor: Actor, order: OperationOrder, asked: tuple[PictureQuery, tuple[str, ...]]
) -> FoundDocument:
    if time.monotonic() > order.deadline:  # it has waited for a thread, and its client is gone
        raise TimedOut("the deadline of this request has passed")
    query, known = asked
    records, zxid = desk.records, desk.records.zxid
    place = f"{PICTURE_PATH} {query}"
    version = world_version(records, actor, order, place)
    if version is not None and version in known:
        return FoundDocument(version, None, zxid)
    if version is not None and (kept := desk.documents.get(place, version, records.now())) is not None:
        return FoundDocument(version, kept, zxid)
    notes: list[str] = []
    found = perform(records, actor, order, notes.append)
    graph = found.performed.answer
    part = excerpt.roles(graph) if query.around is None else excerpt.near(graph, query.around, query.steps)
    drawn = drawer.draw(excerpt.dot(part)) if part.boxes else Undrawn("no noderole matches")
    failed = drawn.reason if isinstance(drawn, Undrawn) else None
    answer = {**public(part), "drawing": None if failed else drawn, "undrawn": failed}
    content = msgspec.json.encode({"answer": answer, "notes": notes})
    if failed or version is None or notes:
        return FoundDocument(None, content, found.zxid)
    desk.documents.keep(place, version, content, records.next_end())
    return FoundDocument(version, content, found.zxid)
