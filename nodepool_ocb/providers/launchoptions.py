"""The faults of the options of a provider that launches, of its pools and of its labels, as a driver tells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nodepool_ocb.documents.schema import faults_in_value
from nodepool_ocb.model.records import Json
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel

#: The schema of options that must not exist.
NO_OPTIONS: Final[Json] = {"type": "object", "properties": {}, "additionalProperties": False}

VOLUME_GB: Final = 50  # Nodepool's default


def volume_resources(label: PoolLabel) -> dict[str, float]:
    """The volume of a node that boots from one; empty for other labels."""
    if not label.options.get("boot-from-volume"):
        return {}
    return {"volumes": 1.0, "volume-gb": float(label.options.get("volume-size", VOLUME_GB))}


def option_faults(
    provider: LaunchProvider, schema: Json = NO_OPTIONS, pools: Json = NO_OPTIONS, labels: Json = NO_OPTIONS
) -> Iterator[str]:
    """Each fault as ``[PATH: ]sentence``, with a path such as ``pools[main].labels[small].memory``."""
    yield from _faults("", schema, provider.options)
    for pool in provider.pools.values():
        yield from _faults(f"pools[{pool.name}]", pools, pool.options)
        for label in pool.labels.values():
            yield from _faults(f"pools[{pool.name}].labels[{label.name}]", labels, label.options)


def _faults(path: str, schema: Json, options: Mapping[str, Json]) -> Iterator[str]:
    known = set(schema["properties"])
    for fault in faults_in_value(schema, dict(options)):
        head, colon, rest = fault.partition(": ")
        below = colon and head.split("/")[0] in known | set(options)
        place = ".".join(filter(None, [path, head.replace("/", ".") if below else ""]))
        sentence = rest if below else fault
        yield f"{place}: {sentence}" if place else sentence
