"""Long work over HTTP: the address of the object that shows it, and the wait for its end.

A wait holds no thread between its looks, which the cache of the server answers.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from nodepool_ocb.api.actor import Actor
from nodepool_ocb.api.performing import OperationOrder, perform
from nodepool_ocb.api.requests import Desk
from nodepool_ocb.api.routes import ROUTES, filled, parameters
from nodepool_ocb.errors import NotFound
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.calls.longwork import LongWork, WorkEnd
from nodepool_ocb.operations.operation import Operation

LOOK_SECONDS: Final = 0.3  # between two looks
SHARE: Final = 4  # times as long as a look took, none begins
LONGEST_WAIT_SECONDS: Final = 600.0


def location(operation: Operation[Any]) -> str:
    """The path, with its query, at which a GET performs a read."""
    name, kind = registry.name_of(type(operation)), type(operation)
    route = next(each for each in ROUTES if each.operation == name and each.method == "GET")
    path, taken = route.path, set[str]()
    for parameter in parameters(route.path):
        (field,) = filled(route, kind, {parameter: ""})
        path = path.replace(f"{{{parameter}}}", quote(str(getattr(operation, field)), safe="@"))
        taken.add(field)
    given = {
        each.name: getattr(operation, each.name)
        for each in msgspec.structs.fields(kind)
        if each.name not in taken and getattr(operation, each.name) != each.default
    }
    return f"{path}?{urlencode(given, doseq=True, safe='@:/,')}" if given else path


async def awaited(desk: Desk, actor: Actor, work: LongWork, seconds: float, zxid: int) -> WorkEnd | None:
    """The end of the work, with its document; None if it still goes on after so many seconds.

    ``zxid``: of the write that began it; each look is at least as new.
    """
    until = time.monotonic() + seconds
    before: Any = None
    while True:
        begun = time.monotonic()
        try:
            before = await _read(desk, actor, work.look(before), zxid)
            ended = work.end(before)
        except NotFound as gone:
            return WorkEnd("deleted", gone)
        if ended is not None:
            document = ended.document or await _read(desk, actor, work.shown, zxid)
            return WorkEnd(ended.outcome, ended.error, document)
        now = time.monotonic()
        if now >= until:
            return None
        await asyncio.sleep(min(max(LOOK_SECONDS, SHARE * (now - begun)), until - now))


async def _read(desk: Desk, actor: Actor, operation: Operation[Any], zxid: int) -> Any:
    order = OperationOrder(operation=operation, deadline=desk.deadline(), min_zxid=zxid)
    found = await desk.run(lambda: perform(desk.records, actor, order, lambda _: None), order.deadline)
    return found.performed.answer
