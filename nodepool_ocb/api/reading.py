"""A GET: the document of a read, with the version of its records as ETag.

The version is older than the document, or of the same state: a document that is newer than its version costs one more request,
and never a lost write. Rights and limits are judged before anything is taken from the memory, and an object must exist before
304 says that it has not changed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from litestar import Request, Response
from msgspec.structs import replace

from nodepool_ocb.api.actor import Actor, require_own_token, require_reveal
from nodepool_ocb.api.encoding import encoded, shown
from nodepool_ocb.api.paging import PageOptions, chosen, page
from nodepool_ocb.api.performing import OperationOrder, perform, version_for, version_of, world_version
from nodepool_ocb.api.requests import Desk, versions
from nodepool_ocb.api.routes import WORLD, Route
from nodepool_ocb.api.versions import joined
from nodepool_ocb.operations.noderoles.reading import NoderoleList, NoderolesListed
from nodepool_ocb.operations.reads.versions import ANY
from nodepool_ocb.operations.tokens.reading import TokenShow

#: The list of all noderoles, and its document around the rows.
WHOLE: Final = NoderoleList()
HEAD, _, TAIL = encoded([shown(NoderolesListed([]))], (), {}).partition(b"[]")


class AskedResource(msgspec.Struct, frozen=True, kw_only=True):
    """A request, as it was understood."""

    route: Route
    actor: Actor
    order: OperationOrder
    place: str | None  # the branch of the one object, if the version is of that
    own: str | None = None  # the branch of the one object, if the version is of that and of the world
    page: PageOptions
    wait_seconds: float = 0.0  # for the end of the work that it begins


class FoundDocument(msgspec.Struct, frozen=True):
    """A document as JSON, None if the client has this version; ``zxid``: it shows all writes up to here."""

    version: str | None
    content: bytes | None
    zxid: int


async def read(desk: Desk, request: Request[Any, Any, Any], asked: AskedResource) -> Response[Any]:
    """The answer of a GET."""
    require_own_token(asked.actor, asked.order.operation)
    require_reveal(asked.actor, asked.order.operation)
    known = versions(request.headers.get("if-none-match"))
    place = f"{request.url.path}?{request.url.query}"
    found = _remembered(desk, asked, place, known) or _patched(desk, asked, place, known)
    if found is None:
        found = await _read_once(desk, asked, place, known)
    return answered(found)


def answered(found: FoundDocument) -> Response[Any]:
    """The answer with the version of a document; 304 if the client has it."""
    headers = {"Ocb-Zxid": str(found.zxid), **({} if found.version is None else {"ETag": f'"{found.version}"'})}
    if found.content is None:
        return Response(None, status_code=304, headers=headers)
    return Response(found.content, status_code=200, media_type="application/json", headers=headers)


def _remembered(desk: Desk, asked: AskedResource, place: str, known: tuple[str, ...]) -> FoundDocument | None:
    """The document of an unchanged world that is in the memory, without a wait; None: ``_found`` must read."""
    records = desk.records
    zxid, version = records.zxid, records.world_version
    if asked.route.records != WORLD or asked.own is not None or version is None or zxid < (asked.order.min_zxid or 0):
        return None
    version = version_for(asked.actor, place, version)
    kept = desk.documents.get(place, version, records.now())
    if kept is None:
        return None
    return FoundDocument(version, None if {version, ANY} & {*known} else kept, zxid)


def _patched(desk: Desk, asked: AskedResource, place: str, known: tuple[str, ...]) -> FoundDocument | None:
    """The list of all noderoles with few changed rows, without a wait; None: ``_found`` must read."""
    if not _is_whole(asked):
        return None
    records = desk.records
    with records.glimpse() as world:
        if world is None or not records.rows.at_once or records.zxid < (asked.order.min_zxid or 0):
            return None
        return _whole(desk, asked, place, known, world)


def _is_whole(asked: AskedResource) -> bool:
    """Limits, filters, pages and chosen fields have another document."""
    return asked.order.operation == WHOLE and asked.actor.limits is None and asked.page == PageOptions()


def _whole(desk: Desk, asked: AskedResource, place: str, known: tuple[str, ...], world: Any) -> FoundDocument | None:
    """The list of all noderoles, joined from parts, with its version; while the world does not change. None if it has notes.

    Its rows show records alone, so no end of a hold or a pause ends the document.
    """
    records = desk.records
    if world.unreadable or records.world_version is None:
        return None
    version = version_for(asked.actor, place, records.world_version)
    if {version, ANY} & {*known}:
        return FoundDocument(version, None, records.zxid)
    content = b"".join((HEAD, b"[", *records.rows.whole(world.vertices), b"]", TAIL))
    desk.documents.keep(place, version, content)
    return FoundDocument(version, content, records.zxid)


async def _read_once(desk: Desk, asked: AskedResource, place: str, known: tuple[str, ...]) -> FoundDocument:
    """The document, for all equal requests that come meanwhile with the same rights, and without a write of this server."""
    order, records = asked.order, desk.records
    key = (place, known, _rights(asked.actor, order), records.writes)
    found: FoundDocument = await desk.flights.join(
        key,
        order.min_zxid or 0,
        records.zxid,
        order.deadline,
        lambda: desk.run(lambda: _found(desk, asked, place, known), order.deadline),
    )
    return found


def _rights(actor: Actor, order: OperationOrder) -> tuple[object, ...]:
    """Equal for two holders who get the same document."""
    limited = "" if actor.limits is None else actor.limits.text
    return actor.token.role, actor.token.reveal, limited, actor.id if isinstance(order.operation, TokenShow) else None


def _found(desk: Desk, asked: AskedResource, place: str, known: tuple[str, ...]) -> FoundDocument:
    """The document; on a thread that may wait."""
    records, order, version = desk.records, asked.order, None
    branch = asked.place if asked.own is None else asked.own
    if branch is not None:
        dated = version_of(records, asked.actor, order, branch)
        version, order = dated.version, replace(order, min_zxid=max(order.min_zxid or 0, dated.zxid))
    if asked.route.records == WORLD:
        of_world = world_version(records, asked.actor, order, place)
        version = of_world if asked.own is None else joined(version, of_world)
        if _is_whole(asked):
            with records.reading() as world:
                whole = _whole(desk, asked, place, known, world)
            if whole is not None:
                return whole
    notes: list[str] = []
    found = perform(records, asked.actor, order, notes.append)
    if version is not None and {version, ANY} & {*known}:
        return FoundDocument(version, None, found.zxid)
    answers, more = found.performed.answers, {}
    if asked.page.paged:
        cut = page(found.performed.answer, asked.route.key, asked.page)
        answers, more = (cut.answer,), {"next": cut.next}
    content = encoded([shown(chosen(each, asked.page.fields)) for each in answers], notes, more)
    if version is not None and asked.place is None and asked.own is None and not notes:
        desk.documents.keep(place, version, content, records.next_end())
    return FoundDocument(version, content, found.zxid)
