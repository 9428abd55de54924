"""A request as it changes, for ``request create --wait``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.errors import InError, NotFound, OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import RequestState
from nodepool_ocb.operations.following import Following
from nodepool_ocb.operations.performer import AnyPerformer, Performer
from nodepool_ocb.operations.polling import polled
from nodepool_ocb.operations.requests.reading import RequestShow
from nodepool_ocb.views.pools import RequestDocument

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

#: Between two explanations of a wait, which read all requests and nodes.
EXPLAINED_SECONDS = 15.0


class RequestSeen(msgspec.Struct, frozen=True):
    """A request at one moment."""

    document: RequestDocument | None  # None: it was deleted
    state: RequestState | None

    def error(self, id: str) -> OcbError | None:
        """The error with which a wait ends; None for a request that is fulfilled, and for one that waits."""
        if self.document is None:
            return NotFound(f"request {id} was deleted")
        if self.state is RequestState.FAILED:
            return InError(f"request {id} failed: {self.document.row.reason or 'no reason is recorded'}")
        return None

    @property
    def over(self) -> bool:
        """Whether the wait ends."""
        return self.state in (None, RequestState.FULFILLED, RequestState.FAILED)


def request(performer: AnyPerformer, id: str, deadline: float | None) -> Iterator[RequestSeen]:
    """The request now, after each change and at each tick; raises TimedOut at the deadline (monotonic)."""
    if isinstance(performer, Performer):
        return _followed(performer, id, deadline)
    return _polled(performer, id, deadline)


def _polled(performer: AnyPerformer, id: str, deadline: float | None) -> Iterator[RequestSeen]:
    try:
        for document in polled(performer, lambda: RequestShow(request=id), deadline):
            yield RequestSeen(document, document.row.state)
    except NotFound:
        yield RequestSeen(None, None)


def _followed(performer: Performer, id: str, deadline: float | None) -> Iterator[RequestSeen]:
    made: list[_RequestSource] = []

    def make(opened: Session, wake: Callable[[], None]) -> _RequestSource:
        made.append(_RequestSource(performer, opened, id, wake))
        return made[0]

    for _ in Following(performer, deadline).changes(make, EXPLAINED_SECONDS):
        yield made[0].seen()


class _RequestSource:
    """The znode of a request, for Following."""

    def __init__(self, performer: Performer, opened: Session, id: str, wake: Callable[[], None]) -> None:
        self._performer, self._opened, self._id, self._wake = performer, opened, id, wake
        self._version: int | None = None

    def load(self) -> bool:
        self._opened.watch(paths.request(self._id), lambda *_: self._wake())
        return self.refresh()

    def refresh(self) -> bool:
        znode = self._opened.get(paths.request(self._id))
        before, self._version = self._version, None if znode is None else znode.version
        return before != self._version

    sweep = refresh

    def seen(self) -> RequestSeen:
        try:
            document = self._performer.ask(RequestShow(request=self._id), self._opened)
        except NotFound:
            return RequestSeen(None, None)
        return RequestSeen(document, document.row.state)
