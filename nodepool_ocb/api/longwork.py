"""Long work over HTTP: the address of the object that shows it, and the wait for its end.

A wait holds no thread between its looks, which the cache of the server answers.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from msgspec.structs import replace

from nodepool_ocb.api.actor import Actor
from nodepool_ocb.api.performing import OperationOrder, perform
from nodepool_ocb.api.requests import Desk
from nodepool_ocb.api.routes import ROUTES, filled, parameters
from nodepool_ocb.errors import NotFound, OcbError
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.calls.longwork import LongWork, WorkEnd
from nodepool_ocb.operations.operation import Operation

LOOK_SECONDS: Final = 0.3  # between two looks
SHARE: Final = 4  # times as long as a look took, none begins
LONGEST_WAIT_SECONDS: Final = 600.0
LONGEST_LATE_SECONDS: Final = 5.0  # of a look that begins at the end of the wait


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
    """The end of the work, with its document; None if it still goes on after so many seconds, or the token opens it no more.

    ``zxid``: of the write that began it; each look is at least as new. The write is done, so no error of a look is raised:
    another look follows.
    """
    until = time.monotonic() + seconds
    watch = _Watch(desk, actor, work, until, zxid)
    while True:
        begun = time.monotonic()
        with suppress(OcbError):
            ended = await watch.look()
            if ended is not None:
                return ended if await watch.allowed() else None
            if watch.closed:
                return None
        now = time.monotonic()
        if now >= until:
            return None
        await asyncio.sleep(min(max(LOOK_SECONDS, SHARE * (now - begun)), until - now))


class _Watch:
    """The looks of one wait."""

    def __init__(self, desk: Desk, actor: Actor, work: LongWork, until: float, zxid: int) -> None:
        self._desk, self._actor, self._work = desk, actor, work
        self._until, self._zxid = until, zxid
        self._before: Any = None
        self.closed = False  # the object is there, and the token opens it no more

    async def look(self) -> WorkEnd | None:
        """The end, with its document; None while the work goes on. Raises the errors of a read."""
        work = self._work
        try:
            self._before = await self._read(self._actor, work.look(self._before))
            ended = work.end(self._before)
            if ended is None:
                return None
            document = ended.document or await self._read(self._actor, work.shown)
        except NotFound as gone:
            if await self._deleted():
                return WorkEnd("deleted", gone)
            self.closed = True
            return None
        return WorkEnd(ended.outcome, ended.error, document)

    async def _deleted(self) -> bool:
        """Whether the object is gone from the cluster, not from the limits of the token alone."""
        token = replace(self._actor.token, deployments=(), selector=None)
        try:
            ended = self._work.end(await self._read(replace(self._actor, token=token), self._work.look(self._before)))
        except NotFound:
            return True
        return ended is not None and ended.outcome == "deleted"

    async def allowed(self) -> bool:
        """Whether the token still has the rights that it had. Raises Unavailable and TimedOut."""
        return await self._desk.run(lambda: self._desk.still_valid(self._actor), self._deadline())

    async def _read(self, actor: Actor, operation: Operation[Any]) -> Any:
        order = OperationOrder(operation=operation, deadline=self._deadline(), min_zxid=self._zxid)
        records = self._desk.records
        found = await self._desk.run(lambda: perform(records, actor, order, lambda _: None), order.deadline)
        return found.performed.answer

    def _deadline(self) -> float:
        """A look may take some seconds beyond the end of the wait, and not as long as a request."""
        return min(self._desk.deadline(), max(self._until, time.monotonic() + LONGEST_LATE_SECONDS))
