"""What is set aside, in the record of a node or a deployment: by whom, why, and until when."""

from __future__ import annotations

import msgspec

from nodepool_ocb.model.ranges import Moment


class Aside(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nothing new begins there while this stands: a node is held, a deployment or the daemons of a host are paused."""

    by: str
    reason: str | None = None
    since: Moment
    until: Moment | None = None  # it holds no longer then, by ZooKeeper's clock; None: until somebody lifts it
