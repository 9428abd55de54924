"""``request list`` and ``request show``."""

from __future__ import annotations

from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.pools import ReadPool
from nodepool_ocb.operations.requests import finding, waiting
from nodepool_ocb.views import pools as shown
from nodepool_ocb.views.pools import RequestDocument, RequestRow


class RequestList(Operation[list[RequestRow]], frozen=True, kw_only=True):
    """Every request in the order of service, with the cause of its wait."""

    noun = "request"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadPool, *waiting.READS)

    labels: tuple[str, ...] = ()  # requests for any of them; none: all
    states: tuple[str, ...] = ()  # any of them; none: all

    def decide(self, situation: Situation) -> Steps[list[RequestRow]]:
        found = yield from finding.load()
        chosen = [
            view
            for view in found.view.requests.values()
            if (not self.states or view.record.state in self.states)
            and (not self.labels or not set(self.labels).isdisjoint(view.record.node_types))
        ]
        chosen.sort(key=lambda view: view.order)
        reasons = yield from waiting.explained(found, chosen, situation)
        return [shown.request_row(view, found.view, reasons.get(view.id)) for view in chosen]


class RequestShow(Operation[RequestDocument], frozen=True, kw_only=True):
    """One request: its record, its place, the cause of its wait, the verdict of each pool, its nodes. Raises NotFound."""

    noun = "request"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadPool, *waiting.READS)

    request: str

    def decide(self, situation: Situation) -> Steps[RequestDocument]:
        found = yield from finding.load()
        view = finding.request_of(found.view, self.request)
        reasons = yield from waiting.explained(found, [view], situation)
        return shown.request_document(view, found.view, reasons.get(view.id), found.holders)
