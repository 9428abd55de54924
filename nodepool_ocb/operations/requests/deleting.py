"""``request delete``."""

from __future__ import annotations

from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Delete
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.agreement import Agreement
from nodepool_ocb.operations.reads.announcement import Announcement
from nodepool_ocb.operations.reads.pools import ReadPool, ReadPoolAtFirst
from nodepool_ocb.operations.requests import finding


class RequestDelete(Operation[Explained], frozen=True, kw_only=True):
    """Delete requests. Launchers free or delete the nodes that were allocated to them. Raises NotFound."""

    noun = "request"
    verb = "delete"
    right = Right.OPERATOR
    reads = (ReadPoolAtFirst, Announcement, Agreement, ReadPool)
    writes = ("request for nodes",)

    requests: tuple[str, ...]

    def decide(self, situation: Situation) -> Steps[Explained]:
        first = yield from finding.load_at_first()
        ids = [finding.request_of(first.view, request).id for request in self.requests]
        if not situation.call.dry_run:
            yield from Agreement(f"delete {', '.join(ids)}")
        now = yield from finding.load()
        left = [now.view.requests[id] for id in dict.fromkeys(ids) if id in now.view.requests]
        yield from limits.parts(limits.singly(Delete(paths.request(view.id), view.version) for view in left))
        return Explained()
