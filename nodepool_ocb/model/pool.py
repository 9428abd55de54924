"""The records of node requests and of the nodes of a pool: Nodepool 11's fields, states and paths.

Nodepool's and Zuul's clients read and write the same records. They replace a whole record without a version, and Nodepool's
client drops keys that it does not know. So each fact that must outlive a launch is in a field of Nodepool. Keys of ours serve
people only, or only until the node is ready. A field with null has its default.

Those clients read some keys without asking whether they exist. So a record is written with each of its keys, also with null.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from nodepool_ocb.model.ranges import Count, Moment, Rank, Span, Times
from nodepool_ocb.model.records import Json, Record


class RequestState(StrEnum):
    """The state of a request for nodes."""

    REQUESTED = "requested"  # no launcher has begun with it
    PENDING = "pending"  # a launcher holds its lock, and allocates or launches nodes for it
    FULFILLED = "fulfilled"  # its nodes are ready; the requester locks them
    FAILED = "failed"  # no pool can serve it, or each has failed to


class PoolNodeState(StrEnum):
    """The state of a node of a pool."""

    INIT = "init"  # only the record exists
    BUILDING = "building"  # its name at the provider is recorded; the machine may exist
    TESTING = "testing"  # its host keys are pinned; the roles of its label become ACTIVE
    READY = "ready"  # it may be handed out
    IN_USE = "in-use"  # a requester holds its lock and uses it
    USED = "used"  # its requester returned it
    HOLD = "hold"  # it is kept for a person
    DELETING = "deleting"  # its machine is deleted, then the record
    DELETED = "deleted"  # its machine is gone; the record goes next
    FAILED = "failed"  # its launch failed; its machine is deleted, or kept for a person
    ABORTED = "aborted"  # its launch ended for a reason that is not its own, such as a quota; it does not count


class NodeRequest(Record, frozen=True, kw_only=True, omit_defaults=False, tag=1):
    """``requests/<priority>-<sequence>``."""

    state: RequestState
    state_time: Moment
    node_types: tuple[str, ...] = ()  # labels, in the order of the requester; one label may stand several times
    nodes: tuple[str, ...] = ()  # ids of nodes, in the order of node_types; empty before it is fulfilled
    declined_by: tuple[str, ...] = ()  # ids of the pools that cannot serve it
    reuse: bool | None = True  # False: no node that was ready before; null counts as True here, as False in Nodepool
    requestor: str | None = None
    requestor_data: Json = None  # of the requester; stored unchanged
    provider: str | None = None  # the only provider that may serve it
    relative_priority: Rank | None = 0  # lower goes first, among requests of one priority; null counts as 0
    event_id: str | None = None
    created_time: Moment | None = None
    tenant_name: str | None = None
    expires: Moment | None = None  # ours: it is deleted then, unless its nodes are in use
    reason: str | None = None  # ours: why it failed


class PoolNode(Record, frozen=True, kw_only=True, omit_defaults=False, tag=1):
    """``nodes/<sequence>``: a machine that a provider has, or will have."""

    state: PoolNodeState
    state_time: Moment
    type: tuple[str, ...] | str = ()  # its labels
    cloud: str | None = None
    provider: str | None = None
    pool: str | None = None
    allocated_to: str | None = None  # the id of a request
    az: str | None = None
    region: str | None = None
    public_ipv4: str | None = None
    private_ipv4: str | None = None
    public_ipv6: str | None = None
    host_id: str | None = None
    interface_ip: str | None = None  # the address to connect to
    connection_port: Count | None = None
    ssh_port: Count | None = None  # the same as connection_port
    connection_type: str | None = None
    shell_type: str | None = None
    image_id: str | None = None  # the path of the upload, or the provider's id of a cloud image
    launcher: str | None = None  # the id of the launcher that launches it
    created_time: Moment | None = None
    external_id: str | None = None  # the provider's id of the machine
    hostname: str | None = None  # the machine's name at the provider, recorded before it is created
    comment: str | None = None
    user_data: Json = None
    hold_job: str | None = None
    hold_expiration: Span | str | None = None  # seconds in the state hold
    username: str | None = None
    host_keys: tuple[str, ...] | None = None  # "ssh-ed25519 AAAA..."
    resources: Mapping[str, Json] | None = None  # cores, ram, volumes, volume-gb, instances
    slot: Times | None = None  # of a static machine
    attributes: Mapping[str, Json] | None = None  # node-attributes of its pool
    python_path: str | None = None
    tenant_name: str | None = None
    requestor: str | None = None
    node_properties: Mapping[str, Json] | None = None
    driver_data: Json = None  # of a machine that we launch: a LaunchFacts; of Nodepool: its driver's own
    reason: str | None = None  # ours: why it failed, or why it is deleted


class LaunchFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``driver_data`` of a node that we launch: facts that a successor needs. Nodepool's client keeps them."""

    key: str  # of the stamp of its machine; empty before the machine has a name
    attempt: Times = 1  # the number of this launch, among those for the same need
    since: Moment = 0.0  # when the newest fact of the launch was recorded; deadlines count from it
    not_before: Moment = 0.0  # the launch does not begin sooner: a back-off
    party: str | None = None  # of a failed launch: the party at fault, as a LaunchParty
    fqdn: str | None = None  # the node below /ocb
    machine: str | None = None  # of a static provider: the machine's name in the file
    refusals: Times = 0  # launches that the provider refused in a row for its quota: before this one, then with it
    beside: Times | None = None  # of a launch that was refused for a quota: the machines of the provider at that time


class PoolComponent(Record, frozen=True, kw_only=True, omit_defaults=False, tag=1):
    """``components/<kind>/<host><sequence>``, ephemeral: Nodepool's registration of a daemon, or of one pool of a launcher."""

    hostname: str
    state: str = "stopped"  # initializing, running, paused, stopped
    kind: str = ""  # builder, launcher, pool
    version: str | None = None
    model_api: Count = 0
    id: str | None = None  # of a pool: in declined_by and launcher of other records
    name: str | None = None
    provider_name: str | None = None
    supported_labels: tuple[str, ...] = ()
    priority: Rank = 100
    paused: bool = False


def launch_facts(node: PoolNode) -> LaunchFacts | None:
    """The facts of its launch; None for a node that another software launched.

    >>> launch_facts(PoolNode(state=PoolNodeState.INIT, state_time=0.0, driver_data={"key": "5f", "attempt": 2})).attempt
    2
    """
    if not isinstance(node.driver_data, dict) or "key" not in node.driver_data:
        return None
    try:
        return msgspec.convert(node.driver_data, LaunchFacts)
    except msgspec.ValidationError:
        return None
