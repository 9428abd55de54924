"""The configuration of launchers as values: labels, and the pools of providers with their limits. Pure.

Each value comes from a nodepool.yaml. Its keys and defaults are Nodepool's; a few keys are ours (docs/pool.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from nodepool_ocb.model.records import Json

HOSTNAME_FORMAT: Final = "{label.name}-{provider.name}-{node.id}"  # of machines, if the provider has no other

Resources = Mapping[str, float]  # "instances", "cores", "ram" in MiB, "volumes", "volume-gb" → an amount


class StaticMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of a static provider; each slot of it is one node."""

    name: str  # host name or address
    labels: tuple[str, ...]
    host_keys: tuple[str, ...] = ()
    host_key_checking: bool = True
    timeout_seconds: float = 5.0
    port: int = 22
    connection_type: str = "ssh"
    shell_type: str | None = None
    username: str = "zuul"
    slots: int = 1  # max-parallel-jobs
    python_path: str = "auto"


class PoolLabel(msgspec.Struct, frozen=True, kw_only=True):
    """A label as one pool offers it."""

    name: str
    diskimage: str | None = None  # an image of the builder; None: a cloud image, or no image
    cloud_image: str | None = None
    resources: Resources = {}  # of one node, as far as the configuration says
    host_key_checking: bool = True
    username: str | None = None
    python_path: str | None = None
    shell_type: str | None = None
    connection_type: str = "ssh"
    connection_port: int = 22
    options: Mapping[str, Json] = {}  # all other keys, for the driver


class ProviderPool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool of a provider. ``id`` is in declined_by and in Nodepool's component."""

    name: str
    provider: str
    labels: Mapping[str, PoolLabel] = {}
    machines: tuple[StaticMachine, ...] = ()
    fleet: bool = False  # its machines are nodes of /ocb, which are installed anew for each use
    limits: Resources = {}  # absent: no limit
    priority: int = 100  # lower goes first
    max_age_seconds: float = 0.0  # max-ready-age of its nodes; 0: any age
    node_attributes: Mapping[str, Json] | None = None
    ignore_provider_quota: bool = False
    options: Mapping[str, Json] = {}


class LaunchProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that launches, as the launcher uses it."""

    name: str
    driver: str
    pools: Mapping[str, ProviderPool] = {}
    region: str | None = None
    cloud: str | None = None
    limits: Resources = {}
    max_concurrency: int | None = None  # launches at a time; None: no limit
    rate_seconds: float = 0.0  # between two calls
    boot_seconds: float = 60.0
    launch_seconds: float = 3600.0
    launch_retries: int = 3
    hostname_format: str = HOSTNAME_FORMAT
    options: Mapping[str, Json] = {}


class PoolLabelPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A label of the top level of the file: how many are kept ready, and the meaning of ready."""

    name: str
    min_ready: int = 0
    max_ready_age_seconds: float = 0.0
    max_hold_age_seconds: float = 0.0  # 0: any age
    deployment: str = "system"  # ours: of the node below /ocb
    roles: tuple[str, ...] = ()  # ours: ACTIVE on a node before it is ready; none: the discovery roles only
    annealed: bool = False  # ours: whether a node below /ocb is made at all
    roles_seconds: float = 1800.0  # ours: the deadline of the roles
    keep_failed: bool = False  # ours: a node whose roles did not become ACTIVE is kept for a person


class PoolConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """All of one launcher's configuration."""

    labels: Mapping[str, PoolLabelPolicy] = {}
    providers: Mapping[str, LaunchProvider] = {}
    tenant_limits: Mapping[str, Resources] = {}
    max_hold_age_seconds: float = 0.0
    patience_seconds: float = 300.0
    omitted: tuple[str, ...] = ()  # parts of the file that no driver here serves, one sentence each

    def pool(self, provider: str, pool: str) -> ProviderPool | None:
        """The pool of these names."""
        found = self.providers.get(provider)
        return None if found is None else found.pools.get(pool)
