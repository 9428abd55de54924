"""``request create``: a request for nodes that stays until it expires or is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import limits
from nodepool_ocb.model.pool import NodeRequest
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.announcement import Announcement
from nodepool_ocb.operations.reads.pools import CreateRequest, ReadPool
from nodepool_ocb.operations.requests import finding
from nodepool_ocb.pool.states import new_request
from nodepool_ocb.pool.views import PoolView
from nodepool_ocb.views import pools as shown
from nodepool_ocb.views.changes import ChangeRow

MOST_NODES: Final = 400  # of one request: one transaction hands all of them out
LONGEST_LABEL: Final = 200

T = TypeVar("T")


class NodesWanted(Operation[T], frozen=True, kw_only=True):
    """The fields by which nodes are asked for."""

    labels: tuple[str, ...]
    count: int = 1  # of nodes of each label
    priority: int = 100  # 0 to 999; lower goes first
    relative_priority: int | None = None  # among requests of one priority; lower goes first
    tenant: str | None = None
    provider: str | None = None  # the only one that may serve it

    @property
    def node_types(self) -> tuple[str, ...]:
        """The label of each node; raises Invalid."""
        if not self.labels:
            raise Invalid("a request needs a label; give --label LABEL")
        if self.count < 1 or self.count * len(self.labels) > MOST_NODES:
            raise Invalid(f"{self.count} nodes of each label: a request is for 1 to {MOST_NODES} nodes; create several")
        if not 0 <= self.priority <= 999:
            raise Invalid(f"priority {self.priority} is not from 0 to 999; give, for example, --priority 100")
        for label in self.labels:
            if not label.strip() or len(label) > LONGEST_LABEL:
                raise Invalid(f"{label!r} can be no label; see: nodepool-ocb pool list")
        return tuple(label for label in self.labels for _ in range(self.count))

    def record(self, situation: Situation, data: Json = None, expires: float | None = None) -> NodeRequest:
        """The record of the request; raises Invalid."""
        record = new_request(
            situation.now,
            node_types=self.node_types,
            requestor=f"nodepool-ocb:{situation.by}@{situation.call.host}",
            requestor_data=data,
            provider=self.provider,
            relative_priority=self.relative_priority,
            created_time=situation.now,
            tenant_name=self.tenant,
            expires=expires,
        )
        size = len(msgspec.json.encode(record))
        if size > limits.REQUEST_BYTES:
            raise Invalid(
                f"the request has {size} bytes, and launchers serve at most {limits.REQUEST_BYTES};"
                " ask for fewer nodes at once, or with shorter texts"
            )
        return record

    def row(self, record: NodeRequest, request: str | None = None) -> ChangeRow:
        """The row of the request, by its id; one that is not made yet has its labels as the name."""
        name = request or ", ".join(dict.fromkeys(self.labels))
        return ChangeRow(change="create", kind="request for nodes", name=name, state=record.state)


class RequestAsked(Explained, frozen=True, kw_only=True):
    """The answer: the row stands in no transaction, since ZooKeeper numbers the request."""

    request: str | None = None  # its id; None in a dry run
    row: ChangeRow

    @property
    def outside(self) -> tuple[ChangeRow, ...]:
        """The row."""
        return (self.row,)


class RequestCreate(NodesWanted[RequestAsked], frozen=True, kw_only=True):
    """Ask for nodes. The request is deleted at its end, unless its nodes are in use. Raises Invalid.

    Notes tell that no launcher is running, and the labels that no running pool has.
    """

    noun = "request"
    verb = "create"
    right = Right.OPERATOR
    reads = (ReadPool, Announcement, CreateRequest)
    writes = ("request for nodes",)

    seconds: float = 86400.0  # until its end

    def decide(self, situation: Situation) -> Steps[RequestAsked]:
        record = self.record(situation, expires=situation.now + self.seconds)
        if self.seconds <= 0:
            raise Invalid(f"an end in {self.seconds:g} seconds is in the past; give, for example, --expires 1d")
        found = yield from finding.load()
        yield from Announcement(tuple(hindrances(found.view, self.labels)))
        request = None
        if not situation.call.dry_run:
            request = yield from CreateRequest(self.priority, record)
        return RequestAsked(request=request, row=self.row(record, request))


def hindrances(view: PoolView, labels: tuple[str, ...]) -> Iterator[str]:
    """Sentences about a request that no launcher of now can serve."""
    if not view.members:
        yield shown.NO_LAUNCHER
        return
    offered = {label for member in view.members for label in member.record.supported_labels}
    for label in dict.fromkeys(labels):
        if label not in offered:
            hint = did_you_mean(label, offered) or "; see: nodepool-ocb pool list"
            yield f"warning: no running pool has label {label}{hint}"
