"""The state machines of requests and of nodes of pools: two tables, and the functions that apply them.

A request:

- CREATE is the requester's: Zuul's client, Nodepool's, or ``request create``.
- CLAIM: a launcher holds its lock and serves it. After the holder's death another launcher claims it again, with its nodes.
- FULFIL names its nodes; FAIL names the cause. RETURN puts it back into the queue: pools declined it, or its launcher has no
  room. Nodepool's launchers also return a lost request.
- REVISE is the requester's: it changes ``relative_priority`` or other keys, in any state.
- A requester deletes its request in any state. A fulfilled one goes when its nodes are locked; nodes that it does not lock are
  free again.

A node:

- CREATE makes the record. NAME records the name of the machine at its provider, before the machine is created. TEST: its host
  keys are pinned, and the roles of its label become ACTIVE. READY ends the launch.
- FAIL and ABORT end a launch. A worker deletes the machine; then the record has no ``external_id``, and it stays until the next
  launch is due. KEEP ends a launch, too, but the machine stays for a person.
- ALLOCATE and FREE change ``allocated_to`` of a ready node. The time of the state stays, since ages count from it.
- USE, RETURN and HOLD are the requester's. It holds the lock of the node for each, and frees it afterwards. Zuul also returns a
  node that it never used.
- DELETE: a launcher or a person gives the node up. LOSE: the machine is gone. Then the record is deleted. No event leads from
  ``deleting`` back.

Other software writes whole records, in any state: these tables bind the writers of this product alone. Pure: the time is an
argument.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.pool import NodeRequest, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.model.statemachines import StateMachine


class RequestEvent(StrEnum):
    """The events of a request."""

    CREATE = "CREATE"  # a requester asks for nodes
    CLAIM = "CLAIM"  # a launcher holds its lock, and serves it
    FULFIL = "FULFIL"  # all its nodes are ready
    RETURN = "RETURN"  # it waits again: pools declined it, or its launcher has no room
    FAIL = "FAIL"  # no pool is left that can serve it
    REVISE = "REVISE"  # the requester changes its relative priority


class PoolNodeEvent(StrEnum):
    """The events of a node."""

    CREATE = "CREATE"  # a launcher begins a launch, or enters the slot of a machine
    NAME = "NAME"  # the name and the stamp of its machine are recorded
    TEST = "TEST"  # it can be reached; the roles of its label are awaited
    READY = "READY"  # the launch succeeded
    FAIL = "FAIL"  # the launch failed
    ABORT = "ABORT"  # the launch ended for a reason that is not its own: a quota, or a fault of the launcher's host
    KEEP = "KEEP"  # the launch failed, and the label wants such machines kept
    ALLOCATE = "ALLOCATE"  # a request gets it
    FREE = "FREE"  # its request does not use it
    USE = "USE"  # its requester begins to use it
    RETURN = "RETURN"  # its requester needs it no longer
    HOLD = "HOLD"  # it is kept for a person
    DELETE = "DELETE"  # its machine is to be deleted
    LOSE = "LOSE"  # its machine is gone


REQUESTS: Final = StateMachine(
    "a request",
    RequestState,
    RequestEvent,
    {
        (None, RequestEvent.CREATE): RequestState.REQUESTED,
        (RequestState.REQUESTED, RequestEvent.CLAIM): RequestState.PENDING,
        (RequestState.PENDING, RequestEvent.CLAIM): RequestState.PENDING,  # its launcher died
        (RequestState.PENDING, RequestEvent.FULFIL): RequestState.FULFILLED,
        (RequestState.REQUESTED, RequestEvent.RETURN): RequestState.REQUESTED,  # declined without a claim
        (RequestState.PENDING, RequestEvent.RETURN): RequestState.REQUESTED,
        (RequestState.REQUESTED, RequestEvent.FAIL): RequestState.FAILED,
        (RequestState.PENDING, RequestEvent.FAIL): RequestState.FAILED,
        (RequestState.REQUESTED, RequestEvent.REVISE): RequestState.REQUESTED,
        (RequestState.PENDING, RequestEvent.REVISE): RequestState.PENDING,
        (RequestState.FULFILLED, RequestEvent.REVISE): RequestState.FULFILLED,  # it came too late, and changes nothing
        (RequestState.FAILED, RequestEvent.REVISE): RequestState.FAILED,  # the same
    },
)

_INIT, _BUILDING, _TESTING = PoolNodeState.INIT, PoolNodeState.BUILDING, PoolNodeState.TESTING
_READY, _IN_USE, _USED, _HOLD = PoolNodeState.READY, PoolNodeState.IN_USE, PoolNodeState.USED, PoolNodeState.HOLD
_FAILED, _ABORTED = PoolNodeState.FAILED, PoolNodeState.ABORTED

POOL_NODES: Final = StateMachine(
    "a node of a pool",
    PoolNodeState,
    PoolNodeEvent,
    {
        (None, PoolNodeEvent.CREATE): _INIT,
        (_INIT, PoolNodeEvent.NAME): _BUILDING,
        (_BUILDING, PoolNodeEvent.NAME): _BUILDING,  # a successor draws another stamp
        (_BUILDING, PoolNodeEvent.TEST): _TESTING,
        (_INIT, PoolNodeEvent.READY): _READY,  # of a machine that needs no launch
        (_BUILDING, PoolNodeEvent.READY): _READY,
        (_TESTING, PoolNodeEvent.READY): _READY,
        (_INIT, PoolNodeEvent.FAIL): _FAILED,
        (_BUILDING, PoolNodeEvent.FAIL): _FAILED,
        (_TESTING, PoolNodeEvent.FAIL): _FAILED,
        (_INIT, PoolNodeEvent.ABORT): _ABORTED,
        (_BUILDING, PoolNodeEvent.ABORT): _ABORTED,
        (_TESTING, PoolNodeEvent.ABORT): _ABORTED,
        (_TESTING, PoolNodeEvent.KEEP): _HOLD,
        (_READY, PoolNodeEvent.ALLOCATE): _READY,
        (_READY, PoolNodeEvent.FREE): _READY,
        (_READY, PoolNodeEvent.USE): _IN_USE,
        (_READY, PoolNodeEvent.RETURN): _USED,
        (_IN_USE, PoolNodeEvent.RETURN): _USED,
        (_READY, PoolNodeEvent.HOLD): _HOLD,
        (_IN_USE, PoolNodeEvent.HOLD): _HOLD,
        (_USED, PoolNodeEvent.HOLD): _HOLD,
        (_HOLD, PoolNodeEvent.HOLD): _HOLD,  # with another comment or time
        (_FAILED, PoolNodeEvent.HOLD): _HOLD,
        (_HOLD, PoolNodeEvent.RETURN): _USED,
        **{(state, PoolNodeEvent.DELETE): PoolNodeState.DELETING for state in PoolNodeState},
        (PoolNodeState.DELETING, PoolNodeEvent.LOSE): PoolNodeState.DELETED,
    },
)

#: Events after which the time of the state stays.
_STAYING: Final = frozenset({PoolNodeEvent.ALLOCATE, PoolNodeEvent.FREE})


def new_request(at: float, **fields: Any) -> NodeRequest:
    """The record of a request. ``fields``: its other keys."""
    return NodeRequest(state=REQUESTS.to(None, RequestEvent.CREATE), state_time=at, **fields)


def request_after(record: NodeRequest, event: RequestEvent, at: float, **fields: Any) -> NodeRequest:
    """The request after an event. ``fields``: the other keys that change. Raises Conflict if the table has no such pair."""
    state = REQUESTS.to(record.state, event)
    return replace(record, state=state, state_time=record.state_time if event is RequestEvent.REVISE else at, **fields)


def new_pool_node(at: float, **fields: Any) -> PoolNode:
    """The record of a node at the begin of its launch. ``fields``: its other keys."""
    return PoolNode(state=POOL_NODES.to(None, PoolNodeEvent.CREATE), state_time=at, created_time=at, **fields)


def pool_node_after(record: PoolNode, event: PoolNodeEvent, at: float, **fields: Any) -> PoolNode:
    """The node after an event. ``fields``: the other keys that change. Raises Conflict if the table has no such pair."""
    state = POOL_NODES.to(record.state, event)
    return replace(record, state=state, state_time=record.state_time if event in _STAYING else at, **fields)


def pool_node_in(record: PoolNode, state: PoolNodeState, at: float, **fields: Any) -> PoolNode:
    """The node in another state, by the event of the table that leads there. Raises Conflict if none does."""
    for (before, event), after in POOL_NODES.after.items():
        if before is record.state and after is state and event not in _STAYING:
            return pool_node_after(record, event, at, **fields)
    raise Conflict(f"a node of a pool in {record.state} cannot become {state}")
