"""``daemon list``."""

from __future__ import annotations

from nodepool_ocb.operations.operation import Note, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.daemons import ReadDaemons
from nodepool_ocb.views import daemons as shown
from nodepool_ocb.views.daemons import DaemonRow


class DaemonList(Operation[list[DaemonRow]], frozen=True, kw_only=True):
    """Every daemon that has a session with ZooKeeper. A note names each record that cannot be read."""

    noun = "daemon"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadDaemons,)

    def decide(self, situation: Situation) -> Steps[list[DaemonRow]]:  # noqa: ARG002
        running = yield from ReadDaemons()
        for reason in running.unread.values():
            yield Note(f"warning: this record cannot be read: {reason}")
        return shown.rows(running.by_kind)
