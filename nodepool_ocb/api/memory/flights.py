"""Reads under way: an equal request that comes meanwhile waits for the same answer. On the thread of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, Generic, TypeVar

import msgspec

from nodepool_ocb.errors import TimedOut

T = TypeVar("T")

DEADLINES_SECONDS: Final = 5.0  # by which the deadline of a read under way may be the earlier one


class Flight(msgspec.Struct, Generic[T]):
    """``zxid``: its answer shows all writes up to here; ``deadline``: monotonic."""

    zxid: int
    deadline: float
    task: asyncio.Task[T]


class Flights(Generic[T]):
    """The reads under way, by keys: requests with equal keys may have one answer."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, Flight[T]] = {}

    async def join(
        self, key: Hashable, least: int, now: int, deadline: float, read: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        """The answer of a read under way that shows all writes up to ``least``, or of a new one, which begins at zxid ``now``.

        Raises its error, and TimedOut at the deadline.
        """
        flight = self._under_way.get(key)
        if flight is None or flight.zxid < least or flight.deadline < deadline - DEADLINES_SECONDS:
            flight = self._under_way[key] = Flight(max(now, least), deadline, asyncio.create_task(read()))
            flight.task.add_done_callback(lambda _: self._landed(key, flight))
        try:
            return await asyncio.wait_for(asyncio.shield(flight.task), max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise TimedOut("the deadline of this request has passed; try again") from None

    def _landed(self, key: Hashable, flight: Flight[T]) -> None:
        if self._under_way.get(key) is flight:
            del self._under_way[key]
        if not flight.task.cancelled():
            flight.task.exception()  # the requests that waited have raised it
