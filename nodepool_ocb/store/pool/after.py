"""The next record of a request and of a node."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from nodepool_ocb.model.pool import NodeRequest, PoolNode, PoolNodeState, RequestState


def request_after(record: NodeRequest, state: RequestState, at: float, **fields: Any) -> NodeRequest:
    """The request in its next state. ``fields``: the other keys that change."""
    return replace(record, state=state, state_time=at, **fields)


def new_node(state: PoolNodeState, at: float, **fields: Any) -> PoolNode:
    """The record of a new node."""
    return PoolNode(state=state, state_time=at, created_time=at, **fields)


def node_after(record: PoolNode, state: PoolNodeState, at: float, **fields: Any) -> PoolNode:
    """The node in its next state. ``fields``: the other keys that change."""
    return replace(record, state=state, state_time=at, **fields)
