"""The launcher's reading of a nodepool.yaml: its labels, and the pools of its providers with their limits. Pure.

Each key that changes a launched node is obeyed, or refused by name. The keys of all drivers are read here. A driver judges the
keys that are left: they are the ``options`` of a provider, a pool and a label. Providers of other drivers are left out, and
``omitted`` names them; builders still serve their images. docs/from-nodepool.md lists all keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.images.faults import OPENSTACK
from nodepool_ocb.images.nodepool import Label, Nodepool, Provider
from nodepool_ocb.model.records import Json
from nodepool_ocb.pool.configuration import (
    HOSTNAME_FORMAT,
    LaunchProvider,
    PoolConfiguration,
    PoolLabel,
    PoolLabelPolicy,
    ProviderPool,
    Resources,
    StaticMachine,
)
from nodepool_ocb.pool.documents.offers import HARMLESS, MACHINE_KEYS, pool_label, static_machine
from nodepool_ocb.pool.launches.hostnames import hostname_fault

STATIC: Final = "static"
METAL: Final = "metal"  # machines of the fleet
FAKE: Final = "fake"  # also of an OpenStack provider with a name that begins with this word, as in Nodepool
#: The key of a limit → its resource.
LIMITS: Final = {
    "max-servers": "instances",
    "max-cores": "cores",
    "max-ram": "ram",
    "max-volumes": "volumes",
    "max-volume-gb": "volume-gb",
}
FURTHER_LIMITS: Final = "max-resources"  # a mapping of further resources to limits
PRIORITY: Final = 100  # of a pool, if neither it nor its provider has one
#: The keys of a pool that have fields of their own.
POOL_KEYS: Final = frozenset(
    {"name", "priority", "node-attributes", "max-ready-age", "ignore-provider-quota", "host-key-checking", "labels"}
    | {FURTHER_LIMITS, *LIMITS}
)
#: The keys of a provider for its images alone, and those with fields of their own.
NO_OPTIONS: Final = frozenset({"image-format", "image-name-format", "use-import", "cloud", "region-name", "rate"})


class LaunchDrivers(msgspec.Struct, frozen=True, kw_only=True):
    """The drivers of this host, as the reading asks them.

    ``faults``: sentences about the options of a provider, its pools and labels, each as ``[PATH: ]sentence``, with a path
    below the provider such as ``pools[main].labels[small].flavor-name``. ``resources``: those of one node of a label.
    """

    names: frozenset[str]
    faults: Callable[[LaunchProvider], Iterable[str]] = lambda _provider: ()
    resources: Callable[[LaunchProvider, PoolLabel], Resources] = lambda _provider, _label: {"instances": 1.0}


def pool_configuration(
    read: Nodepool, file: str, drivers: LaunchDrivers, patience_seconds: float = 300.0
) -> PoolConfiguration:
    """The configuration of a launcher from a loaded nodepool.yaml; ``file`` is its name in sentences.

    Raises Invalid with every key that is refused: ``FILE:LINE: PATH: sentence; next step``.
    """
    reading = _Reading(read, file)
    served = [each for each in read.providers if launch_driver(each) in drivers.names]
    providers = {each.name: reading.provider(each, drivers) for each in served}
    policies = [reading.policy(label) for label in read.labels]
    tenants = reading.tenants(read.tenant_limits)
    if reading.faults:
        raise Invalid(reading.faults)
    offered = {label for provider in providers.values() for pool in provider.pools.values() for label in pool.labels}
    labels = {label: PoolLabelPolicy(name=label) for label in sorted(offered)}
    return PoolConfiguration(
        labels={**labels, **{policy.name: policy for policy in policies}},
        providers=providers,
        tenant_limits=tenants,
        max_hold_age_seconds=read.max_hold_age_seconds,
        patience_seconds=patience_seconds,
        omitted=tuple(_omitted(read, file, [each for each in read.providers if each not in served], offered)),
    )


def launch_driver(provider: Provider) -> str:
    """The driver that launches for a provider.

    >>> launch_driver(Provider(name="fake-cloud")), launch_driver(Provider(name="fake-rack", driver="static"))
    ('fake', 'static')
    """
    return FAKE if provider.driver == OPENSTACK and provider.name.startswith(FAKE) else provider.driver


class _Reading:
    """The faults so far; each method reads one part of the file."""

    def __init__(self, read: Nodepool, file: str) -> None:
        self.faults: list[str] = []
        self._read = read
        self._file = file
        self._labels = [label.name for label in read.labels] if "labels" in read.lines else None

    def policy(self, label: Label) -> PoolLabelPolicy:
        """A label of the top level."""
        keys = label.options
        annealed = keys.get("anneal", bool(keys.keys() & {"deployment", "roles"}))
        idle = sorted(keys.keys() & {"deployment", "roles", "roles-timeout", "keep-failed", "refresh-roles"})
        if idle and not annealed:
            path = f"labels[{label.name}].{idle[0]}"
            self._refuse(
                path, "has no effect on a label without a node in ZooKeeper; add `anneal: true`, or remove the key"
            )
        if keys.get("refresh-roles") is False and annealed:
            path = f"labels[{label.name}].refresh-roles"
            self._refuse(path, "each use of a machine is a new node, so its roles always run again; remove the key")
        return PoolLabelPolicy(
            name=label.name,
            min_ready=label.min_ready,
            max_ready_age_seconds=label.max_ready_age_seconds,
            max_hold_age_seconds=float(keys.get("max-hold-age", 0)),
            deployment=keys.get("deployment", "system"),
            roles=tuple(dict.fromkeys(keys.get("roles", ()))),
            annealed=annealed,
            roles_seconds=float(keys.get("roles-timeout", 1800)),
            keep_failed=keys.get("keep-failed", False),
        )

    def tenants(self, sections: Iterable[Mapping[str, Json]]) -> dict[str, Resources]:
        """The limits of tenants; a key that is no limit of Nodepool names a resource itself."""
        found: dict[str, Resources] = {}
        for number, section in enumerate(sections):
            name, path = section["tenant-name"], f"tenant-resource-limits[{number}]"
            if name in found:
                self._refuse(path, f"tenant {name} is there twice; put its limits into one entry")
            keys = {key: value for key, value in section.items() if key != "tenant-name"}
            found[name] = {LIMITS.get(key, key): self._limit(f"{path}.{key}", value) for key, value in keys.items()}
        return found

    def provider(self, provider: Provider, drivers: LaunchDrivers) -> LaunchProvider:
        """A provider of a driver of this host."""
        path, keys, options = f"providers[{provider.name}]", provider.launch, provider.options
        format = keys.get("hostname-format", HOSTNAME_FORMAT)
        if fault := hostname_fault(format):
            self._refuse(f"{path}.hostname-format", fault)
        concurrency = keys.get("max-concurrency", -1)
        found = LaunchProvider(
            name=provider.name,
            driver=launch_driver(provider),
            region=options.get("region-name"),
            cloud=options.get("cloud"),
            limits=self._limits(path, keys),
            max_concurrency=None if concurrency < 0 else concurrency,
            rate_seconds=float(options.get("rate", 0)),
            boot_seconds=self._seconds(path, keys, "boot-timeout", 60),
            launch_seconds=self._seconds(path, keys, "launch-timeout", 3600),
            launch_retries=max(1, keys.get("launch-retries", 3)),
            hostname_format=format,
            pools=self._pools(path, provider),
            options={key: value for key, value in options.items() if key not in NO_OPTIONS | HARMLESS},
        )
        if found.driver == STATIC:
            self._without_options(path, found)
        for fault in drivers.faults(found):
            head, _, rest = fault.partition(": ")
            known = rest and f"{path}.{head}" in self._read.lines
            self._refuse(f"{path}.{head}" if known else path, rest if known else fault)
        pools = {
            name: replace(
                pool,
                labels={
                    key: replace(label, resources=drivers.resources(found, label)) for key, label in pool.labels.items()
                },
            )
            for name, pool in found.pools.items()
        }
        return replace(found, pools=pools)

    def _pools(self, above: str, provider: Provider) -> dict[str, ProviderPool]:
        found: dict[str, ProviderPool] = {}
        for number, section in enumerate(provider.launch.get("pools") or ()):
            name = section.get("name")
            path = f"{above}.pools[{name or number}]"
            if not name:
                self._refuse(path, "key `name` is missing; name the pool")
                continue
            if name in found:
                self._refuse(path, f"pool {name} is there twice; remove one of them")
            found[name] = self._pool(path, name, section, provider)
        return found

    def _pool(self, path: str, name: str, section: Mapping[str, Json], provider: Provider) -> ProviderPool:
        static = launch_driver(provider) == STATIC
        machines = tuple(self._machines(path, section)) if static else ()
        own = POOL_KEYS | {"nodes"} if static else POOL_KEYS
        labels = [PoolLabel(name=label) for machine in machines for label in machine.labels]
        if not static:
            labels = list(self._pool_labels(path, section, provider))
        age = float(section.get("max-ready-age", 0))
        return ProviderPool(
            name=name,
            provider=provider.name,
            labels={label.name: label for label in labels},
            machines=machines,
            fleet=launch_driver(provider) == METAL,
            limits=self._limits(path, section),
            priority=section.get("priority", provider.launch.get("priority", PRIORITY)),
            max_age_seconds=self._limit(f"{path}.max-ready-age", age),
            node_attributes=section.get("node-attributes"),
            ignore_provider_quota=section.get("ignore-provider-quota", False),
            options={key: value for key, value in section.items() if key not in own},
        )

    def _pool_labels(self, above: str, section: Mapping[str, Json], provider: Provider) -> Iterator[PoolLabel]:
        """The labels of a pool. A plain name is a label without keys."""
        seen: set[str] = set()
        for number, item in enumerate(section.get("labels") or ()):
            keys = {"name": item} if isinstance(item, str) else item
            name = keys.get("name")
            path = f"{above}.labels[{number if not name or isinstance(item, str) else name}]"
            if not name:
                self._refuse(path, "key `name` is missing; name the label")
                continue
            if name in seen:
                self._refuse(path, f"label {name} is there twice; remove one of them")
            seen.add(name)
            self._known(path, name)
            yield pool_label(name, keys, section, provider)

    def _machines(self, above: str, section: Mapping[str, Json]) -> Iterator[StaticMachine]:
        """The machines of a pool of a static provider."""
        taken: Counter[tuple[str, str, int]] = Counter()
        for number, keys in enumerate(section.get("nodes") or ()):
            name = keys.get("name")
            path = f"{above}.nodes[{name or number}]"
            for key in sorted(keys.keys() - MACHINE_KEYS):
                self._refuse(f"{path}.{key}", f"unknown key `{key}`{did_you_mean(key, MACHINE_KEYS) or '; remove it'}")
            if missing := [key for key in ("name", "labels") if not keys.get(key)]:
                self._refuse(path, f"key `{missing[0]}` is missing; add it")
                continue
            machine = static_machine(name, keys)
            for label in machine.labels:
                self._known(path, label)
            taken[machine.name, machine.username, machine.port] += 1
            if taken[machine.name, machine.username, machine.port] == 2:
                self._refuse(
                    path, f"node {name} is there twice with one user and port; use `max-parallel-jobs` instead"
                )
            if not 0 < machine.port < 1 << 16 or machine.slots < 0 or machine.timeout_seconds <= 0:
                self._refuse(
                    path, "must have a port up to 65535, a timeout above 0 and 0 or more jobs; change the number"
                )
            yield machine

    def _without_options(self, above: str, provider: LaunchProvider) -> None:
        """Refuse the options of a provider whose keys are all read here."""
        parts = {above: provider.options} | {
            f"{above}.pools[{each.name}]": each.options for each in provider.pools.values()
        }
        for path, options in parts.items():
            for key in sorted(options):
                self._refuse(f"{path}.{key}", f"driver `{provider.driver}` has no key `{key}`; remove it")

    def _known(self, path: str, label: str) -> None:
        """Refuse a label that the file does not define. A file without the section leaves labels to other files."""
        if self._labels is not None and label not in self._labels:
            hint = did_you_mean(label, self._labels) or "; add it to `labels`"
            self._refuse(path, f"label {label} does not exist{hint}")

    def _limits(self, path: str, section: Mapping[str, Json]) -> Resources:
        found = {LIMITS[key]: self._limit(f"{path}.{key}", section[key]) for key in LIMITS if key in section}
        for name, value in section.get(FURTHER_LIMITS, {}).items():
            found[name] = self._limit(f"{path}.{FURTHER_LIMITS}.{name}", value)
        return found

    def _limit(self, path: str, value: float) -> float:
        if value < 0:
            self._refuse(path, f"must be at least 0, and is {value:g}; remove the key for no limit")
        return float(value)

    def _seconds(self, path: str, section: Mapping[str, Json], key: str, default: float) -> float:
        value = float(section.get(key, default))
        if value <= 0:
            self._refuse(f"{path}.{key}", f"must be above 0, and is {value:g}; it counts seconds")
        return value

    def _refuse(self, path: str, sentence: str) -> None:
        self.faults.append(f"{self._file}:{self._read.line(path)}: {path}: {sentence}")


def _omitted(read: Nodepool, file: str, left_out: Iterable[Provider], offered: set[str]) -> Iterator[str]:
    """A sentence for each provider that would launch, had it a driver here."""
    for provider in left_out:
        pools = provider.launch.get("pools") or ()
        if not pools:
            continue
        path = f"providers[{provider.name}]"
        wanted = {
            item if isinstance(item, str) else item.get("name") for pool in pools for item in pool.get("labels") or ()
        }
        lost = sorted(label for label in wanted - offered if label)
        rest = f"; no pool here offers {', '.join(lost)}" if lost else ""
        where = f"{file}:{read.line(path)}: {path}"
        yield f"{where}: no driver `{provider.driver}` launches here, so its pools are left out{rest}"
