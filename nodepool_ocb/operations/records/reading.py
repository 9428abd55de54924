"""``record list`` and ``record show``."""

from __future__ import annotations

import re
from typing import Final

from nodepool_ocb.errors import Ambiguous, NotFound
from nodepool_ocb.model.rights import OURS
from nodepool_ocb.model.secrecy import HIDDEN
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.znodes import FoundZnode, ReadChildren, ReadUnreadable, ReadZnode, RequireCluster
from nodepool_ocb.telemetry.terminal_escape import line
from nodepool_ocb.views.cluster import RecordDocument
from nodepool_ocb.views.status import Quarantined

READS: Final = (ReadZnode, RequireCluster)

_PATH: Final = re.compile(rf"({'|'.join(OURS)})(/[^/\x00]+)*")


class RecordList(Operation[list[Quarantined]], frozen=True, kw_only=True):
    """Every record that cannot be read, by path. It reads the whole tree."""

    noun = "record"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadUnreadable,)
    founding = True

    def decide(self, situation: Situation) -> Steps[list[Quarantined]]:  # noqa: ARG002
        found = yield from ReadUnreadable()
        return [Quarantined(*each) for each in sorted(found.items())]


class RecordShow(Operation[RecordDocument], frozen=True, kw_only=True):
    """The bytes at a path, with their control characters shown, and the reason why they cannot be read."""

    noun = "record"
    verb = "show"
    right = Right.VIEWER
    reads = (*READS, ReadChildren)
    founding = True

    path: str

    def decide(self, situation: Situation) -> Steps[RecordDocument]:  # noqa: ARG002
        found = yield from at(self.path)
        below = yield from ReadChildren(self.path)
        znode = found.znode
        return RecordDocument(
            path=self.path,
            kind=found.kind,
            cannot_be_read=found.problem,
            version=znode.version,
            bytes=len(znode.data),
            session=f"0x{znode.ephemeral_owner:x}" if znode.ephemeral_owner else None,
            since=znode.mtime,
            below=below,
            data=HIDDEN if found.secret else line(znode.data.decode("utf-8", "backslashreplace")),
        )


def at(path: str) -> Steps[FoundZnode]:
    """The znode at a path; raises NotFound, NoCluster, or Ambiguous for a path outside the project's part of the tree."""
    if not _PATH.fullmatch(path):
        raise Ambiguous(
            "a path begins with /ocb, or with a folder of ours below /nodepool (image, daemons, requests, nodes, components,"
            " requests-lock), without the chroot; see: nodepool-ocb record list"
        )
    found = yield from ReadZnode(path)
    if found is None:
        yield from RequireCluster()  # a wrong place is the better reason than a wrong path
        raise NotFound(f"nothing is at {line(path)}; unreadable records: nodepool-ocb status")
    return found
