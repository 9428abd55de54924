"""Requests for nodes, nodes of pools, and pools: rows, and one with all that people ask about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import NodeRequest, PoolComponent, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.pool.instructions import PoolVerdict, WaitReason
from nodepool_ocb.pool.launches.refusals import quota_refusals, refused_sentence
from nodepool_ocb.pool.views import PoolMember, PoolNodeView, PoolView, RequestView
from nodepool_ocb.views.view import View, Whole

NO_LAUNCHER: Final = (
    "no launcher is running: no request is served;"
    " systemctl start nodepool-ocb-launcher, or without systemd: nodepool-ocb-launcher"
)

GONE: Final = "gone"  # the state of a pool that no running launcher has


class RequestRow(View, frozen=True, kw_only=True):
    """A request at a glance."""

    name: str  # its id
    state: RequestState
    labels: tuple[str, ...]
    since: float  # when it was made
    place: int | None  # in the order of those that wait, 1 for the first; None: it does not wait
    waits_for: str | None  # the code of the cause
    reason: str | None  # the cause in a sentence, or why it failed
    launcher: str | None  # that holds its lock
    nodes: tuple[str, ...]  # allocated to it, or its own when it is fulfilled
    priority: str
    requestor: str | None
    tenant: str | None
    provider: str | None
    expires: float | None


class VerdictRow(View, frozen=True, kw_only=True):
    """Why one pool serves a request, or does not."""

    name: str  # PROVIDER/POOL
    code: str
    reason: str
    ever: bool


class LeaseRow(View, frozen=True, kw_only=True):
    """A node of a pool at a glance."""

    name: str  # its id
    state: PoolNodeState
    labels: tuple[str, ...]
    provider: str | None
    pool: str | None
    since: float  # when it came into the state
    request: str | None
    address: str | None
    port: int | None
    user: str | None
    hostname: str | None
    external_id: str | None
    launcher: str | None
    holder: str | None  # of its lock
    comment: str | None
    until: float | None  # the end of a hold
    reason: str | None


class RequestDocument(View, frozen=True, kw_only=True):
    """One request: its record, the reason why it waits with the verdict of each pool, and its nodes."""

    row: RequestRow
    record: NodeRequest
    nodes: tuple[str, ...]  # as in the row
    reason: str | None  # the same
    pools: tuple[VerdictRow, ...]
    launched: tuple[LeaseRow, ...]  # the nodes that are allocated to it


class LeaseDocument(View, frozen=True, kw_only=True):
    """One node of a pool: its record, and the holder of its lock."""

    row: LeaseRow
    record: PoolNode
    lock: Whole[LockOwner] | None


class RequestGone(View, frozen=True):
    """A request that is watched and was deleted."""

    name: str
    state: None = None


class RequestWait(View, frozen=True, kw_only=True):
    """The result of a wait for a request."""

    outcome: str | None  # fulfilled, failed, deleted; None: its time passed
    request: RequestRow
    leases: tuple[LeaseRow, ...]


class PoolRow(View, frozen=True, kw_only=True):
    """A pool at a glance, of all its launchers."""

    name: str  # PROVIDER/POOL
    provider: str
    pool: str
    state: str  # running, paused, or gone: no running launcher has it
    labels: tuple[str, ...]
    launchers: tuple[str, ...]  # hosts
    nodes: Mapping[str, int]  # how many are in which state; "unreadable": with a record that cannot be read
    requests: int  # that wait for one of its labels


class PoolLauncherRow(View, frozen=True, kw_only=True):
    """A pool as one launcher registered it."""

    name: str  # the launcher's id of it
    host: str
    state: str
    paused: bool
    priority: int
    version: str | None
    native: bool  # a launcher of this product
    labels: tuple[str, ...]


class PoolDocument(View, frozen=True, kw_only=True):
    """One pool with its launchers and its nodes."""

    row: PoolRow
    refused: str | None  # the back-off of the provider after it refused launches for its quota, in a sentence
    members: tuple[PoolLauncherRow, ...]
    leases: tuple[LeaseRow, ...]


class MachineLeakRow(View, frozen=True, kw_only=True):
    """A machine at a provider that has no record."""

    name: str  # the argument of ``lease leaks --delete``
    provider: str
    external_id: str
    hostname: str
    pool: str  # of its stamp
    node: str  # of its stamp
    cluster: str  # of its stamp
    whose: str  # ours, or another cluster's
    since: float | None


class LeasesTaken(View, frozen=True, kw_only=True):
    """Nodes that were taken for a person."""

    request: str
    until: float
    leases: tuple[LeaseRow, ...]


def request_row(view: RequestView, pool: PoolView, waits: WaitReason | None) -> RequestRow:
    """The request at a glance; ``waits`` is None for one that does not wait."""
    record = view.record
    return RequestRow(
        name=view.id,
        state=record.state,
        labels=record.node_types,
        since=record.created_time or view.created,
        place=waits.place if waits is not None and waits.place else None,
        waits_for=waits.code if waits is not None else None,
        reason=record.reason if waits is None else waits.reason,
        launcher=view.locked_by,
        nodes=record.nodes or tuple(node.id for node in allocated(view.id, pool)),
        priority=view.id.partition("-")[0],
        requestor=record.requestor,
        tenant=record.tenant_name,
        provider=record.provider,
        expires=record.expires,
    )


def allocated(request: str, pool: PoolView) -> list[PoolNodeView]:
    """The nodes of a request, by id."""
    return [node for _, node in sorted(pool.nodes.items()) if node.record.allocated_to == request]


def request_document(
    view: RequestView, pool: PoolView, waits: WaitReason | None, holders: Mapping[str, LockOwner]
) -> RequestDocument:
    """One request."""
    row = request_row(view, pool, waits)
    return RequestDocument(
        row=row,
        record=view.record,
        nodes=row.nodes,
        reason=row.reason,
        pools=tuple(map(_verdict, waits.pools if waits is not None else ())),
        launched=tuple(lease_row(node, holders) for node in allocated(view.id, pool)),
    )


def _verdict(verdict: PoolVerdict) -> VerdictRow:
    name = f"{verdict.provider}/{verdict.pool}"
    return VerdictRow(name=name, code=verdict.code, reason=verdict.reason, ever=verdict.ever)


def lease_row(view: PoolNodeView, holders: Mapping[str, LockOwner]) -> LeaseRow:
    """The node at a glance."""
    record, holder = view.record, holders.get(paths.pool_node_lock(view.id))
    return LeaseRow(
        name=view.id,
        state=record.state,
        labels=view.labels,
        provider=record.provider,
        pool=record.pool,
        since=record.state_time,
        request=record.allocated_to,
        address=record.interface_ip or record.public_ipv4 or record.private_ipv4 or record.public_ipv6,
        port=record.connection_port or record.ssh_port,
        user=record.username,
        hostname=record.hostname,
        external_id=record.external_id,
        launcher=record.launcher,
        holder=None if holder is None else _who(holder),
        comment=record.comment,
        until=hold_end(record),
        reason=record.reason,
    )


def _who(holder: LockOwner) -> str:
    return holder.purpose if holder.daemon == "?" else f"{holder.daemon}@{holder.host}"


def lease_document(view: PoolNodeView, holders: Mapping[str, LockOwner]) -> LeaseDocument:
    """One node."""
    holder = holders.get(paths.pool_node_lock(view.id))
    return LeaseDocument(
        row=lease_row(view, holders), record=view.record, lock=None if holder is None else Whole(holder)
    )


def hold_end(record: PoolNode) -> float | None:
    """When a hold ends by its own expiration; None if it has none.

    >>> hold_end(PoolNode(state=PoolNodeState.HOLD, state_time=100.0, hold_expiration="60"))
    160.0
    """
    if record.state is not PoolNodeState.HOLD or record.hold_expiration is None:
        return None
    try:
        seconds = float(record.hold_expiration)
    except ValueError:
        return None
    return record.state_time + seconds if seconds > 0 else None


# -- pools --


def pool_rows(view: PoolView) -> list[PoolRow]:
    """Every pool that a launcher has registered, or that has nodes, by name."""
    members: dict[tuple[str, str], list[PoolMember]] = {}
    for member in view.members:
        members.setdefault(_named(member.record), []).append(member)
    nodes: dict[tuple[str, str], list[PoolNodeView]] = {}
    for node in view.nodes.values():
        nodes.setdefault((node.record.provider or "-", node.record.pool or "-"), []).append(node)
    for node in view.unreadable.values():
        nodes.setdefault((node.record.provider or "-", node.record.pool or "-"), [])
    return [_pool_row(key, members.get(key, ()), nodes.get(key, ()), view) for key in sorted({*members, *nodes})]


def _named(record: PoolComponent) -> tuple[str, str]:
    """The provider and the pool; Nodepool's components have the pool's name alone."""
    return record.provider_name or "-", record.name or "-"


def _pool_row(
    key: tuple[str, str], members: Iterable[PoolMember], nodes: Iterable[PoolNodeView], view: PoolView
) -> PoolRow:
    labels = {label for member in members for label in member.record.supported_labels}
    states = [member.record for member in members]
    paused = bool(states) and all(each.paused or each.state == "paused" for each in states)
    waiting = sum(
        request.record.state in (RequestState.REQUESTED, RequestState.PENDING)
        and not labels.isdisjoint(request.record.node_types)
        for request in view.requests.values()
    )
    counts = Counter(str(node.record.state) for node in nodes)
    for node in view.unreadable.values():
        if (node.record.provider or "-", node.record.pool or "-") == key:
            counts["unreadable"] += 1
    return PoolRow(
        name="/".join(key),
        provider=key[0],
        pool=key[1],
        state="paused" if paused else "running" if states else GONE,
        labels=tuple(sorted(labels)),
        launchers=tuple(sorted({each.hostname for each in states})),
        nodes=dict(sorted(counts.items())),
        requests=waiting,
    )


def pool_document(row: PoolRow, view: PoolView, holders: Mapping[str, LockOwner], now: float) -> PoolDocument:
    """One pool."""
    refused = quota_refusals(view.nodes.values()).get(row.provider)
    key = (row.provider, row.pool)
    members = [member for member in view.members if _named(member.record) == key]
    nodes = [
        node for _, node in sorted(view.nodes.items()) if (node.record.provider or "-", node.record.pool or "-") == key
    ]
    return PoolDocument(
        row=row,
        refused=None if refused is None else refused_sentence(row.provider, refused, now),
        members=tuple(map(_launcher_row, members)),
        leases=tuple(lease_row(node, holders) for node in nodes),
    )


def _launcher_row(member: PoolMember) -> PoolLauncherRow:
    record = member.record
    return PoolLauncherRow(
        name=record.id or member.path.rpartition("/")[2],
        host=record.hostname,
        state=record.state,
        paused=record.paused,
        priority=record.priority,
        version=record.version,
        native=member.native,
        labels=tuple(sorted(record.supported_labels)),
    )
