"""The state of a node, as a rollout needs it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The noderoles of a node's phase, counted by state; none at all, or all ACTIVE, is done."""

    proposed: int = 0  # PROPOSED, and to be committed
    outdated: int = 0  # ACTIVE, and to be run again
    waiting: int = 0  # TODO, or BLOCKED by noderoles that may still succeed
    running: int = 0  # TRANSITION
    cancelling: int = 0  # the same, with a cancel_reason; if no annealer can end it for now it counts as stuck
    errors: Mapping[
        str, int
    ] = {}  # role → generation of those in ERROR: a retry raises it, so old errors differ from new
    stuck: int = 0  # BLOCKED by an ERROR, here or on another node
    unread: int = 0  # records that cannot be read: the rollout waits until they can
    reason: str = ""  # of those that failed, are stuck or cannot be read
    gone: bool = False  # the node does not exist any more

    @property
    def lost(self) -> bool:
        return bool(self.errors or self.stuck)

    @property
    def done(self) -> bool:
        return not (
            self.proposed or self.outdated or self.waiting or self.running or self.cancelling or self.lost or self.gone
            or self.unread
        )  # fmt: skip

    @property
    def at_rest(self) -> bool:
        """Nothing changes any more without a request."""
        return not (self.waiting or self.running or self.cancelling)
