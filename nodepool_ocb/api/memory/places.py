"""The places of requests that last: streams, writes and calls. One token has so many at a time, that others have some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from weakref import WeakSet

from nodepool_ocb.errors import TooMany

FEWEST: Final = 20
SHARE: Final = 4  # this part of the connections of a server


class RequestPlace:
    """The place of one request; it is free again when all that share it have left it, or when nothing refers to it."""

    def __init__(self, taken: WeakSet[RequestPlace], id: str) -> None:
        self._taken, self.id, self._shares = taken, id, 1
        taken.add(self)

    def shared(self) -> Callable[[object], None]:
        """Take part in it; the function that is given leaves it."""
        self._shares += 1
        return lambda _: self._leave()

    def _leave(self) -> None:
        self._shares -= 1
        if not self._shares:
            self._taken.discard(self)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._leave()


class RequestPlaces:
    """The places of one kind of request at one server; on one thread."""

    def __init__(self, connections: int, requests: str) -> None:
        self.of_token: Final = max(FEWEST, connections // SHARE)
        self._requests = requests
        self._taken: WeakSet[RequestPlace] = WeakSet()

    def take(self, id: str) -> RequestPlace:
        """A place for the token with this id. Raises TooMany if it has all.

        >>> places = RequestPlaces(100, "calls")
        >>> kept = [places.take("a") for _ in range(25)]
        >>> places.take("a")
        Traceback (most recent call last):
        nodepool_ocb.errors.TooMany: token a has 25 calls under way at this server, the most of one token; wait for some to end
        >>> other = places.take("b")
        >>> thread_ends = kept[0].shared()
        >>> with kept[0]:
        ...     pass
        >>> places.take("a")
        Traceback (most recent call last):
        nodepool_ocb.errors.TooMany: token a has 25 calls under way at this server, the most of one token; wait for some to end
        >>> thread_ends(None)
        >>> last = places.take("a")
        """
        if sum(each.id == id for each in self._taken) >= self.of_token:
            raise TooMany(
                f"token {id} has {self.of_token} {self._requests} under way at this server, the most of one token;"
                " wait for some to end"
            )
        return RequestPlace(self._taken, id)
