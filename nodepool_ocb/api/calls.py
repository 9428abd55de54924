"""``POST /v1/operations/NAME``: one operation, with its answer as a stream of lines (``operations.wire.lines``).

A refusal before the first line is an ordinary answer with an error status. A later one is the last line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
from litestar import Request, Response
from litestar.response import Stream
from msgspec.structs import replace

from nodepool_ocb.api.actor import Actor, require_right
from nodepool_ocb.api.memory.places import RequestPlace
from nodepool_ocb.api.performing import AgreementAsked, Answered, OperationOrder, perform
from nodepool_ocb.api.requests import Desk, body_of, call_key, min_zxid, versions
from nodepool_ocb.errors import Invalid, NotFound, OcbError
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.calls.saving import operation_of
from nodepool_ocb.operations.reads.versions import ANY
from nodepool_ocb.operations.wire.codec import decode_operation, encode_answer
from nodepool_ocb.operations.wire.lines import MEDIA_TYPE, AnswerLine, CallBody, CallEnd, encode_line
from nodepool_ocb.operations.wire.problems import problem_of

OPERATIONS: Final = registry.remote()
_BODY: Final = msgspec.json.Decoder(CallBody)


async def call(desk: Desk, request: Request[Any, Any, Any]) -> Response[Any]:
    """The handler; raises the errors of a refusal before the first line."""
    actor = await desk.actor(request)
    kind = OPERATIONS.get(request.path_params["name"].strip("/"))
    if kind is None:
        raise NotFound("there is no operation of this name; docs/operations-table.md has all of them")
    require_right(actor, kind)
    order = _order(desk, request, kind, await body_of(request))
    order = replace(order, key=call_key(request, actor, order.operation, order.reason))
    place = desk.take_write(actor, order.operation)
    lines = _lines(desk, actor, order, place)
    with place:
        first = await anext(lines)
        place.shared()  # ``_joined`` leaves it
    return Stream(_joined(first, lines, place), media_type=MEDIA_TYPE)


def _order(desk: Desk, request: Request[Any, Any, Any], kind: Any, data: bytes) -> OperationOrder:
    """Raises Invalid."""
    try:
        body = _BODY.decode(data or b"{}")
    except (msgspec.DecodeError, RecursionError, UnicodeError) as wrong:
        raise Invalid(f"the body is no call of an operation: {wrong}") from wrong
    wanted = versions(request.headers.get("if-match"))
    if body.plan is not None and bytes(body.fields) != b"{}":
        raise Invalid("a plan has the fields of its operation; leave `fields` out")
    demanded = wanted[0] if wanted and ANY not in wanted and not body.dry_run else None
    return OperationOrder(
        operation=decode_operation(kind, body.fields) if body.plan is None else operation_of(body.plan, kind),
        reason=body.reason,
        dry_run=body.dry_run,
        agreed=body.agreed,
        deadline=desk.deadline(body.deadline_seconds),
        save=body.save,
        plan=demanded if body.plan is None else body.plan,
        fresh=True,
        min_zxid=min_zxid(request),
    )


async def _joined(first: bytes, rest: AsyncIterator[bytes], place: RequestPlace) -> AsyncIterator[bytes]:
    """The lines; the place is free behind the last one."""
    with place:
        yield first
        async for line in rest:
            yield line


async def _lines(desk: Desk, actor: Actor, order: OperationOrder, place: RequestPlace) -> AsyncIterator[bytes]:
    """The lines; raises an error that comes before the first one."""
    loop, heard = asyncio.get_running_loop(), asyncio.Queue[bytes | None]()

    def hear(text: str) -> None:
        loop.call_soon_threadsafe(heard.put_nowait, encode_line(AnswerLine(note=text)))

    performing = desk.run(lambda: perform(desk.records, actor, order, hear), order.deadline, place=place)
    work = asyncio.ensure_future(performing)
    work.add_done_callback(lambda _: heard.put_nowait(None))
    begun = False
    while (line := await heard.get()) is not None:
        begun = True
        yield line
    try:
        for line in _of_answer(order, await work):
            yield line
    except AgreementAsked as asked:
        yield encode_line(AnswerLine(agree=asked.question))
        yield encode_line(AnswerLine(done=CallEnd(dry_run=order.dry_run, zxid=desk.records.zxid)))
    except OcbError as error:
        if not begun:
            raise
        yield encode_line(AnswerLine(error=problem_of(error)))


def _of_answer(order: OperationOrder, found: Answered) -> list[bytes]:
    performed = found.performed
    lines = [AnswerLine(answer=msgspec.Raw(encode_answer(each))) for each in performed.answers]
    if order.operation.writes:
        lines.append(AnswerLine(rows=performed.rows))
    if found.saved is not None:
        lines.append(AnswerLine(plan=found.saved))
    lines.append(AnswerLine(done=CallEnd(dry_run=order.dry_run, zxid=found.zxid, plan=found.plan)))
    return [encode_line(each) for each in lines]
