"""The events by which people change requests and nodes of pools, and the records after them. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.model.pool import NodeRequest, PoolNode, PoolNodeState, RequestState


class PoolNodeEvent(StrEnum):
    """The events of a node."""

    USE = "USE"  # a client locks it and uses it
    RETURN = "RETURN"  # its client returns it
    HOLD = "HOLD"  # a person keeps it
    DELETE = "DELETE"  # a person asks for its deletion


_AFTER: Final = {
    PoolNodeEvent.USE: PoolNodeState.IN_USE,
    PoolNodeEvent.RETURN: PoolNodeState.USED,
    PoolNodeEvent.HOLD: PoolNodeState.HOLD,
    PoolNodeEvent.DELETE: PoolNodeState.DELETING,
}


def new_request(at: float, **fields: Any) -> NodeRequest:
    """The record of a request that a person makes. ``fields``: its other keys."""
    return NodeRequest(state=RequestState.REQUESTED, state_time=at, **fields)


def pool_node_after(record: PoolNode, event: PoolNodeEvent, at: float, **fields: Any) -> PoolNode:
    """The node after an event. ``fields``: the other keys that change."""
    return replace(record, state=_AFTER[event], state_time=at, **fields)
