"""A session in whose midst something happens: before the request that a test names."""

from __future__ import annotations

from collections.abc import Callable

from nodepool_ocb.store.client import frames
from nodepool_ocb.store.client.answers import PendingAnswer
from nodepool_ocb.store.client.session import Session


class InterruptedSession(Session):
    """Calls ``disturb`` before its ``at``-th request from now on, and what that gives after the request was sent."""

    at = 0
    disturb: Callable[[], Callable[[], None] | None]

    def _send(self, request: frames.Raw) -> PendingAnswer:
        self.at -= 1
        if self.at != 0:
            return super()._send(request)
        after = self.disturb()
        answer = super()._send(request)
        if after is not None:
            after()
        return answer
