"""Requests, nodes, launchers and quotas as they were read: the inputs of the rules. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from nodepool_ocb.model.pool import NodeRequest, PoolComponent, PoolNode, PoolNodeState
from nodepool_ocb.pool.configuration import Resources

NO_PROVIDER: Final = ""  # in ``PoolView.images``: of an image for the disks of machines of the fleet


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it was read."""

    id: str  # PRIORITY-SEQUENCE
    record: NodeRequest
    version: int
    created: float  # seconds since the epoch, by ZooKeeper
    locked_by: str | None = None  # the text of the holder of its lock
    ours: bool = False  # whether this launcher holds the lock
    bytes: int = 0  # of its record

    @property
    def order(self) -> tuple[str, int, str]:
        """Nodepool's order: the priority as text, the relative priority, the sequence."""
        priority, _, sequence = self.id.partition("-")
        return priority, self.record.relative_priority or 0, sequence


class PoolNodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a pool as it was read."""

    id: str
    record: PoolNode
    version: int
    created: float
    locked: bool = False
    ours: bool = False  # whether this launcher holds the lock

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels; a record of an old Nodepool has one as text."""
        return (self.record.type,) if isinstance(self.record.type, str) else self.record.type

    @property
    def free(self) -> bool:
        """Whether it is ready for any request."""
        return self.record.state is PoolNodeState.READY and self.record.allocated_to is None and not self.locked


class PoolMember(msgspec.Struct, frozen=True, kw_only=True):
    """A pool of a running launcher, of ours or of Nodepool's: its component, and whether the launcher is ours."""

    path: str
    record: PoolComponent
    session: int  # the owner of the component
    native: bool = True  # a launcher of this product
    kept: tuple[str, ...] | None = None  # labels with min-ready in its file; None: unknown, all that the pool offers

    @property
    def key(self) -> tuple[str, str]:
        """Provider and pool."""
        return self.record.provider_name or "", self.record.name or ""


class PoolLauncher(msgspec.Struct, frozen=True, kw_only=True):
    """The launcher that decides: its registrations, and the id that its nodes bear."""

    id: str
    session: int  # the owner of its components
    pools: Mapping[tuple[str, str], str] = {}  # (provider, pool) → the id of the component


class ReadyImage(msgspec.Struct, frozen=True, kw_only=True):
    """The upload from which a provider launches an image: the highest ready one of the newest build that has one there."""

    build: str
    upload: str
    path: str
    external_id: str
    username: str | None = None
    python_path: str | None = None
    shell_type: str | None = None


class ProviderQuota(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that a provider itself reports, and the usage that is not ours."""

    limits: Resources = {}  # absent: no limit
    foreign: Resources = {}
    read: float = 0.0  # when


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the rules decide from, read at about one time."""

    requests: Mapping[str, RequestView] = {}
    nodes: Mapping[str, PoolNodeView] = {}
    unreadable: Mapping[
        str, PoolNodeView
    ] = {}  # nodes with a record that cannot be read: as on hold, where they are known to be
    members: tuple[PoolMember, ...] = ()
    images: Mapping[tuple[str, str], ReadyImage] = {}  # (provider, image), or (NO_PROVIDER, image)
    quotas: Mapping[str, ProviderQuota] = {}  # by provider
    faults: Mapping[str, str] = {}  # by provider: why nothing can be launched there now
    lives: Mapping[str, float] = {}  # by label: the median life of recent nodes, in seconds
