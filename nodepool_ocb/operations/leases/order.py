"""The order of a ``lease run``, and its end: the exit code of COMMAND, or one of ``LeaseExit``."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from nodepool_ocb.model.pool import NodeRequest
from nodepool_ocb.views.changes import ChangeRow


class LeaseExit(IntEnum):
    """The exit codes of ``lease run`` itself. A command that signal N ended has 128 + N, as in shells."""

    NO_LEASE = 125  # no lease was made: the call, ZooKeeper, a right, or the access to a node; stderr has the reason
    NOT_EXECUTABLE = 126  # COMMAND cannot be executed
    NOT_FOUND = 127  # there is no such COMMAND
    REQUEST_FAILED = 193  # no pool can serve the request, or it was deleted
    NOT_IN_TIME = 194  # the request was not served within --wait-timeout
    TIME_OVER = 195  # the time of the lease ended before COMMAND, which was ended
    LEASE_LOST = 196  # the session or a lock ended before COMMAND, which was ended


class LeaseOrder(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run needs."""

    record: NodeRequest
    priority: int
    command: tuple[str, ...]
    seconds: float  # of the lease
    wait_seconds: float | None  # until the nodes are ready; None: any time
    identity: str | None  # a private key of the performer's host; None: a new key


class LeaseEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a lease: the exit code, and a sentence if it is not the command's own; of a dry run, the request."""

    code: int
    reason: str | None = None
    row: ChangeRow | None = None  # of the request that a dry run would make; None: it was no dry run
