"""The keys of driver openstack in a nodepool.yaml: of a provider, of its pools and of their labels, and their faults. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nodepool_ocb.model.records import Json
from nodepool_ocb.pool.configuration import LaunchProvider
from nodepool_ocb.providers.launchoptions import option_faults

NAMES: Final[Json] = {"type": "array", "items": {"type": "string", "minLength": 1}}
POOL_OPTIONS: Final[Json] = {
    "type": "object",
    "properties": {
        "networks": NAMES,
        "auto-floating-ip": {"type": "boolean"},
        "availability-zones": NAMES,
        "security-groups": NAMES,
    },
    "additionalProperties": False,
}
TEMPLATES: Final = "dynamic-instance-properties"
LABEL_OPTIONS: Final[Json] = {
    "type": "object",
    "properties": {
        "flavor-name": {"type": "string", "minLength": 1},
        "min-ram": {"type": "integer", "minimum": 1},
        "key-name": {"type": "string", "minLength": 1},
        "boot-from-volume": {"type": "boolean"},
        "volume-size": {"type": "integer", "minimum": 1},
        "instance-properties": {"type": "object"},
        TEMPLATES: {},  # refused in other words
        "userdata": {"type": "string"},
        "networks": NAMES,
        "config-drive": {"type": "boolean"},
        "console-log": {"type": "boolean"},
        "image-id": {"type": "string", "minLength": 1},
        "image-name": {"type": "string", "minLength": 1},
    },
    "anyOf": [{"required": ["flavor-name"]}, {"required": ["min-ram"]}],
    "additionalProperties": False,
}
PROVIDER_OPTIONS: Final[Json] = {
    "type": "object",
    "properties": {"clean-floating-ips": {"type": "boolean"}, "port-cleanup-interval": {"type": "integer"}},
    "additionalProperties": False,
}


def cloud_faults(provider: LaunchProvider) -> Iterator[str]:
    """Each fault as ``[PATH: ]sentence``."""
    if provider.cloud is None:
        yield "key `cloud` is missing; name a cloud of clouds.yaml"
    yield from option_faults(provider, PROVIDER_OPTIONS, POOL_OPTIONS, LABEL_OPTIONS)
    for pool in provider.pools.values():
        for label in pool.labels.values():
            if TEMPLATES in label.options:
                yield (
                    f"pools[{pool.name}].labels[{label.name}].{TEMPLATES}: it would fill templates with data of requesters, "
                    "and is not obeyed; use `instance-properties`"
                )
