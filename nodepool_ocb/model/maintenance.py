"""Holds and pauses, in the record of a node or a deployment: author, reason and end."""

from __future__ import annotations

import msgspec

from nodepool_ocb.model.ranges import Moment


class Maintenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nothing new begins there while this stands: a node is held, a deployment or the daemons of a host are paused."""

    by: str
    reason: str | None = None
    since: Moment
    until: Moment | None = None  # its end, by ZooKeeper's clock; None: until it is lifted
