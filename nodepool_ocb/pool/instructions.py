"""The results of the rules: each is one step that a launcher carries out. Pure.

An instruction names the versions that it was decided from. A step that finds another version is dropped; the next turn decides
again. ``reason`` is a sentence for the log and for records.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from nodepool_ocb.pool.configuration import StaticMachine


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Take the lock of a request, and set it pending.

    ``nodes``: ready nodes that serve the whole request. If they answer, one transaction hands them out without the lock:
    it is refused if the lock exists.
    """

    request: str
    version: int
    nodes: tuple[tuple[str, int], ...] = ()  # id and version, in the order of node_types


class AllocateNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Set ``allocated_to`` of ready nodes, and the pool that serves the request. One transaction."""

    request: str
    version: int
    nodes: tuple[tuple[str, int], ...]  # id and version


class LaunchNode(msgspec.Struct, frozen=True, kw_only=True):
    """Make the record of a node in ``init``, and begin its launch."""

    provider: str
    pool: str
    label: str
    request: str | None = None  # None: for min-ready
    attempt: int = 1
    slot: int | None = None
    machine: str | None = None  # of a static provider: its name in the file
    username: str | None = None  # of that machine; name, user and port identify it
    port: int | None = None
    not_before: float = 0.0  # back-off
    refusals: int = 0  # launches that the provider refused in a row for its quota


def slot_launch(provider: str, pool: str, machine: StaticMachine, slot: int) -> LaunchNode:
    """The launch of a slot."""
    return LaunchNode(
        provider=provider,
        pool=pool,
        label=machine.labels[0],
        slot=slot,
        machine=machine.name,
        username=machine.username,
        port=machine.port,
    )


class FulfilRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Set the request fulfilled, if all its nodes have these versions; then free the locks. One transaction."""

    request: str
    version: int
    nodes: tuple[tuple[str, int], ...]  # id and version, in the order of node_types


class DeclineRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Add pools to declined_by, and return the request to ``requested``; ``failed``: no pool is left, so it fails.

    The step takes the lock of the request if this launcher does not hold it, and frees it. Without pools, it is a release.
    """

    request: str
    version: int
    pools: tuple[str, ...]
    reason: str
    failed: bool = False


class FreeNode(msgspec.Struct, frozen=True, kw_only=True):
    """Clear ``allocated_to`` of a node that was never used: it is ready again for any request."""

    node: str
    version: int
    reason: str


class DeleteNode(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the machine, then the record.

    ``heir``: the launch of the same slot of a static machine. If the machine answers, a ready node takes the place of this
    one in one transaction; if not, the record is deleted.
    """

    node: str
    version: int
    reason: str
    heir: LaunchNode | None = None


class FailNode(msgspec.Struct, frozen=True, kw_only=True):
    """End a launch that missed a deadline. ``keep``: the machine stays for a person."""

    node: str
    version: int
    reason: str
    keep: bool = False
    aborted: bool = False


class AdoptNode(msgspec.Struct, frozen=True, kw_only=True):
    """Take the lock of a node whose launcher is gone, and continue its launch or its deletion."""

    node: str
    version: int


class DeleteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a request that expired, or that was fulfilled and whose nodes are all returned."""

    request: str
    version: int
    reason: str
    expired: bool = False


Instruction: TypeAlias = (
    ClaimRequest
    | AllocateNodes
    | LaunchNode
    | FulfilRequest
    | DeclineRequest
    | FreeNode
    | DeleteNode
    | FailNode
    | AdoptNode
    | DeleteRequest
)


class PoolVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why one pool serves a request, or does not."""

    provider: str
    pool: str
    code: str  # SERVES, NO_LABEL, LIMIT, TENANT_LIMIT, QUOTA, PAUSED, NO_IMAGE, DECLINED, PROVIDER_FAULT, RESERVED, ELSEWHERE
    reason: str
    ever: bool = True  # False: it can never serve it


class WaitReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request waits: its place in the order, the cause in one sentence, and the verdict of each pool."""

    request: str
    place: int  # 1 for the first; 0: it does not wait
    code: str
    reason: str
    pools: tuple[PoolVerdict, ...] = ()
