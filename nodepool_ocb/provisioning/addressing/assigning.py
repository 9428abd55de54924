"""``KEY=VALUE`` of the verbs for networks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from nodepool_ocb.documents.assigned import claim, keys, with_values, words
from nodepool_ocb.model.networks import RANGES, Network, RelaySegment


def _segments(text: str) -> tuple[RelaySegment, ...]:
    try:
        return msgspec.json.decode(text or "[]", type=tuple[RelaySegment, ...])
    except msgspec.DecodeError as wrong:
        raise ValueError(f'{wrong}; write JSON: [{{"subnet": "10.2.0.0/24", "router": "10.2.0.1"}}]') from None


FIELDS: Final[Mapping[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("subnet", "subnet6", "router", "router6", "domain"), str),
    "nameservers": words,
    "ntp": words,
    "vlan": lambda text: int(text) if text else None,
    "mtu": int,
    "proxy": claim,
    "segments": _segments,
    "quarantine_seconds": float,
    "slice_count": int,
}
SECTIONS: Final[Mapping[str, Sequence[str]]] = {"ranges": RANGES}
KEYS: Final = keys(FIELDS, SECTIONS)


def assigned(network: Network, pairs: Iterable[tuple[str, str]]) -> Network:
    """The network with these values; an empty range takes it out. Raises Invalid with each fault of a value."""
    return with_values(network, "a network", pairs, FIELDS, SECTIONS)
