"""The places of streams, which are never cut for other connections: so many of one token at a time, that others have some."""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

from nodepool_ocb.errors import Unavailable

FEWEST: Final = 20
SHARE: Final = 4  # this part of the connections of a server


class StreamPlace:
    """The place of one stream; it is free again when it is left, or when nothing refers to it."""

    def __init__(self, taken: WeakSet[StreamPlace], id: str) -> None:
        self._taken, self.id = taken, id
        taken.add(self)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._taken.discard(self)


class StreamPlaces:
    """The places at one server; on one thread."""

    def __init__(self, connections: int) -> None:
        self.of_token: Final = max(FEWEST, connections // SHARE)
        self._taken: WeakSet[StreamPlace] = WeakSet()

    def take(self, id: str) -> StreamPlace:
        """A place for the token with this id. Raises Unavailable if it has all.

        >>> places = StreamPlaces(100)
        >>> kept = [places.take("a") for _ in range(25)]
        >>> places.take("a")
        Traceback (most recent call last):
        nodepool_ocb.errors.Unavailable: token a has 25 streams of events at this server, the most of one token; close some
        >>> other = places.take("b")
        >>> with kept.pop():
        ...     pass
        >>> last = places.take("a")
        """
        if sum(each.id == id for each in self._taken) >= self.of_token:
            raise Unavailable(
                f"token {id} has {self.of_token} streams of events at this server, the most of one token; close some"
            )
        return StreamPlace(self._taken, id)
