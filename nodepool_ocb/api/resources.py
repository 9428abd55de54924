"""The REST form: one JSON document for each request, with the version of its records as ETag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from litestar import Request, Response
from msgspec.structs import replace

from nodepool_ocb.api import longwork
from nodepool_ocb.api.actor import Actor, require_right
from nodepool_ocb.api.asking import asked_of
from nodepool_ocb.api.paging import PageOptions, chosen, page
from nodepool_ocb.api.performing import AgreementAsked, OperationOrder, perform, version_for, versions_of
from nodepool_ocb.api.requests import (
    Desk,
    call_key,
    min_zxid,
    problem,
    versions,
)
from nodepool_ocb.api.routes import WORLD, Route, parameters
from nodepool_ocb.api.versions import branch, conditions
from nodepool_ocb.errors import VersionLacking
from nodepool_ocb.model.secrecy import hidden
from nodepool_ocb.operations.calls.longwork import WorkEnd, begun
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.operations.reads.versions import ANY
from nodepool_ocb.operations.tokens.reading import TokenShow
from nodepool_ocb.operations.wire.problems import Problem, problem_of
from nodepool_ocb.views.keptrows import EncodedRows
from nodepool_ocb.views.view import View, is_flat, public


class AskedResource(msgspec.Struct, frozen=True, kw_only=True):
    """A request, as it was understood."""

    route: Route
    actor: Actor
    order: OperationOrder
    place: str | None  # the branch of the one object, if the version is of that
    page: PageOptions
    wait_seconds: float = 0.0  # for the end of the work that it begins


async def answer(
    desk: Desk, request: Request[Any, Any, Any], route: Route, kind: type[Operation[Any]], path: str
) -> Response[Any]:
    """The handler of a row, for one of its paths."""
    actor = await desk.actor(request)
    require_right(actor, kind)
    # Litestar reserves some names of parameters, so its own have a prefix
    named = {name: str(request.path_params[f"of_{name}"]) for name in parameters(path)}
    options, pages, operation = await asked_of(request, route, kind, named)
    order = OperationOrder(
        operation=operation,
        reason=options.reason,
        dry_run=options.dry_run,
        agreed=options.agreed,
        deadline=desk.deadline(options.deadline_seconds),
        min_zxid=min_zxid(request),
        key=call_key(request, actor, operation, options.reason),
    )
    place = branch(route.records, named[route.records]) if route.records in named else None
    asked = AskedResource(
        route=route, actor=actor, order=order, place=place, page=pages, wait_seconds=options.wait or 0.0
    )
    return await (_write if kind.writes else _read)(desk, request, asked)


async def _read(desk: Desk, request: Request[Any, Any, Any], asked: AskedResource) -> Response[Any]:
    known = versions(request.headers.get("if-none-match"))
    place = f"{request.url.path}?{request.url.query}"
    found = _remembered(desk, asked, place, known)
    if found is None:
        found = await _read_once(desk, asked, place, known)
    headers = {"Ocb-Zxid": str(found.zxid), **({} if found.version is None else {"ETag": f'"{found.version}"'})}
    if found.content is None:
        return Response(None, status_code=304, headers=headers)
    return Response(found.content, status_code=200, media_type="application/json", headers=headers)


async def _read_once(desk: Desk, asked: AskedResource, place: str, known: tuple[str, ...]) -> FoundDocument:
    """The document, for all equal requests that come meanwhile with the same rights, and without a write of this server."""
    actor, order, records = asked.actor, asked.order, desk.records
    limited = "" if actor.limits is None else actor.limits.expression
    whose = actor.id if isinstance(order.operation, TokenShow) else None
    key = (place, known, actor.token.role, actor.token.reveal, limited, whose, records.writes)
    found: FoundDocument = await desk.flights.join(
        key,
        order.min_zxid or 0,
        records.zxid,
        order.deadline,
        lambda: desk.run(lambda: _found(desk, asked, place, known), order.deadline),
    )
    return found


class FoundDocument(msgspec.Struct, frozen=True):
    """A document as JSON, None if the client has this version; ``zxid``: it shows all writes up to here."""

    version: str | None
    content: bytes | None
    zxid: int


def _remembered(desk: Desk, asked: AskedResource, place: str, known: tuple[str, ...]) -> FoundDocument | None:
    """The list of an unchanged world that is in the memory, without a wait; None: ``_found`` must look."""
    zxid, version = desk.records.zxid, desk.records.world_version
    if asked.route.records != WORLD or version is None or zxid < (asked.order.min_zxid or 0):
        return None
    return _kept(desk, place, known, version_for(asked.actor, version), zxid)


def _kept(desk: Desk, place: str, known: tuple[str, ...], version: str, zxid: int) -> FoundDocument | None:
    """The document of this version, if the client or the memory has it."""
    if version in known or ANY in known:
        return FoundDocument(version, None, zxid)
    kept = desk.documents.get(place, version)
    return None if kept is None else FoundDocument(version, kept, zxid)


def _found(desk: Desk, asked: AskedResource, place: str, known: tuple[str, ...]) -> FoundDocument:
    """The document; on a thread that may wait. A list of an unchanged world is taken from the memory."""
    records, actor, order = desk.records, asked.actor, asked.order
    version: str | None = None
    if asked.route.records == WORLD or asked.place is not None:
        zxid = records.zxid
        version = versions_of(records, actor, order, asked.place)
        if version is not None and (kept := _kept(desk, place, known, version, zxid)) is not None:
            return kept
    notes: list[str] = []
    found = perform(records, actor, order, notes.append)
    answers, more = found.performed.answers, {}
    if asked.page.paged:
        cut = page(found.performed.answer, asked.route.key, asked.page)
        answers, more = (cut.answer,), {"next": cut.next}
    content = _encoded([shown(chosen(each, asked.page.fields)) for each in answers], notes, more)
    if version is not None and not notes:
        desk.documents.keep(place, version, content)
    return FoundDocument(version, content, found.zxid)


async def _write(desk: Desk, request: Request[Any, Any, Any], asked: AskedResource) -> Response[Any]:
    match, none = versions(request.headers.get("if-match")), versions(request.headers.get("if-none-match"))
    order = asked.order
    if not order.dry_run:
        order = _conditioned(order, asked.route, asked.place, match, none)
    notes: list[str] = []
    try:
        found = await desk.run(lambda: perform(desk.records, asked.actor, order, notes.append), order.deadline)
    except AgreementAsked as question:
        detail = f"this will {question.question.text}; nothing was written; repeat the request with agreed=true if it is meant"
        return problem(Problem(code="agreement-needed", status=409, detail=detail, error="Conflict"))
    headers = {"Ocb-Zxid": str(found.zxid), **({} if found.plan is None else {"ETag": f'"{found.plan}"'})}
    more: dict[str, Any] = {"dry_run": order.dry_run, "rows": [public(row) for row in found.performed.rows]}
    status, work = 200, begun(order.operation, found.performed)
    if work is not None:
        headers["Location"] = longwork.location(work.shown)
        end = None
        if asked.wait_seconds:
            end = await longwork.awaited(desk, asked.actor, work, asked.wait_seconds, found.zxid)
        status = 202 if end is None else 200
        more |= {} if end is None else _end(end)
    content = _encoded([shown(each) for each in found.performed.answers], notes, more)
    return Response(content, status_code=status, media_type="application/json", headers=headers)


def _end(end: WorkEnd) -> dict[str, Any]:
    """The end of awaited work: ``document`` is the final one, and ``error`` the reason of a bad end."""
    error = {} if end.error is None else {"error": msgspec.to_builtins(problem_of(end.error))}
    return {"outcome": end.outcome, "document": shown(end.document), **error}


def _conditioned(
    order: OperationOrder, route: Route, place: str | None, match: tuple[str, ...], none: tuple[str, ...]
) -> OperationOrder:
    """Raises VersionLacking: a write by selector needs the digest of its plan, one to an object the version of it."""
    if place is not None:
        return replace(order, conditions=conditions(place, match, none, creates=route.creates))
    if getattr(order.operation, "selector", None) is not None:
        if not match:
            raise VersionLacking("a write by selector needs If-Match with the ETag of its dry run, or `*` for any plan")
        return order if ANY in match else replace(order, plan=match[0])
    return order


def _encoded(answers: Sequence[Any], notes: Sequence[str], more: Mapping[str, Any]) -> bytes:
    body = {"answer": answers[0]} if len(answers) == 1 else {"answers": answers}
    return msgspec.json.encode({**body, **more, "notes": list(notes)})


def shown(value: Any) -> Any:
    """An answer as JSON without any secret."""
    return hidden(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, View):
        return public(value)
    if isinstance(value, EncodedRows):
        return value.json()
    if (
        isinstance(value, list)
        and value
        and all(issubclass(each, View) and is_flat(each) for each in {*map(type, value)})
    ):
        return msgspec.Raw(msgspec.json.encode(value))  # they hold no secret, and this is much faster
    if isinstance(value, msgspec.Struct):
        return {
            name: _plain(each)
            for name in value.__struct_fields__
            if (each := getattr(value, name)) is not msgspec.UNSET
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return msgspec.to_builtins(value)
