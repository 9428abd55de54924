"""Following, for verbs that are not operations yet; ``operations.following`` has the rules."""

from __future__ import annotations

from nodepool_ocb.cli.kit.performing import performer
from nodepool_ocb.operations import following
from nodepool_ocb.operations.following import SWEEP_SECONDS as SWEEP_SECONDS


class Following(following.Following):
    """A source, followed by this command until the deadline (monotonic)."""

    def __init__(self, deadline: float | None) -> None:
        super().__init__(performer(), deadline)
