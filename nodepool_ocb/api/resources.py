"""The REST form: one JSON document for each request; reads are in ``reading``, and writes here."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response
from msgspec.structs import replace

from nodepool_ocb.api import longwork
from nodepool_ocb.api.actor import require_right
from nodepool_ocb.api.asking import asked_of
from nodepool_ocb.api.encoding import encoded, shown
from nodepool_ocb.api.memory.places import RequestPlace
from nodepool_ocb.api.performing import AgreementAsked, OperationOrder, perform
from nodepool_ocb.api.reading import AskedResource, read
from nodepool_ocb.api.requests import (
    Desk,
    call_key,
    min_zxid,
    problem,
    versions,
)
from nodepool_ocb.api.routes import Route, parameters
from nodepool_ocb.api.versions import branch, conditions, of_object
from nodepool_ocb.errors import VersionLacking
from nodepool_ocb.operations.calls.longwork import WorkEnd, begun
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.operations.reads.versions import ANY
from nodepool_ocb.operations.wire.problems import Problem, problem_of
from nodepool_ocb.views.view import public


async def answer(
    desk: Desk, request: Request[Any, Any, Any], route: Route, kind: type[Operation[Any]], path: str
) -> Response[Any]:
    """The handler of a row, for one of its paths."""
    actor = await desk.actor(request)
    require_right(actor, kind)
    # Litestar reserves some names of parameters, so its own have a prefix
    named = {name: str(request.path_params[f"of_{name}"]) for name in parameters(path)}
    options, pages, operation = await asked_of(request, route, kind, named)
    place = branch(route.records, named[route.records]) if route.records in named else None
    order = OperationOrder(
        operation=operation,
        reason=options.reason,
        dry_run=options.dry_run,
        agreed=options.agreed,
        deadline=desk.deadline(options.deadline_seconds),
        min_zxid=min_zxid(request),
        key=call_key(request, actor, operation, options.reason),
        place=place,
    )
    asked = AskedResource(
        route=route,
        actor=actor,
        order=order,
        place=place,
        own=branch(route.own, named[route.own]) if route.own is not None else None,
        page=pages,
        wait_seconds=options.wait or 0.0,
    )
    if not kind.writes:
        return await read(desk, request, asked)
    held = desk.take_write(actor, operation)
    with held:
        return await _write(desk, request, asked, held)


async def _write(
    desk: Desk, request: Request[Any, Any, Any], asked: AskedResource, held: RequestPlace
) -> Response[Any]:
    match = tuple(of_object(each) for each in versions(request.headers.get("if-match")))
    none = versions(request.headers.get("if-none-match"))
    order = replace(asked.order, known=match)
    if not order.dry_run:
        order = _conditioned(order, asked.route, asked.place, match, none)
    notes: list[str] = []
    try:
        found = await desk.run(
            lambda: perform(desk.records, asked.actor, order, notes.append), order.deadline, place=held
        )
    except AgreementAsked as question:
        detail = f"this will {question.question.text}; nothing was written; repeat the request with agreed=true if it is meant"
        return problem(Problem(code="agreement-needed", status=409, detail=detail, error="Conflict"))
    version = found.plan or found.version
    headers = {"Ocb-Zxid": str(found.zxid), **({} if version is None else {"ETag": f'"{version}"'})}
    more: dict[str, Any] = {"dry_run": order.dry_run, "rows": [public(row) for row in found.performed.rows]}
    status, work = 200, begun(order.operation, found.performed)
    if work is not None:
        headers["Location"] = longwork.location(work.shown)
        end = None
        if asked.wait_seconds:
            end = await longwork.awaited(desk, asked.actor, work, asked.wait_seconds, found.zxid)
        status = 202 if end is None else 200
        more |= {} if end is None else _end(end)
    content = encoded([shown(each) for each in found.performed.answers], notes, more)
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
