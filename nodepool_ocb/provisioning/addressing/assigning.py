"""``KEY=VALUE`` of the verbs for networks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.networks import RANGES, Network, RelaySegment


def _claim(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("write true or false")
    return text == "true"


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)


def _segments(text: str) -> tuple[RelaySegment, ...]:
    try:
        return msgspec.json.decode(text or "[]", type=tuple[RelaySegment, ...])
    except msgspec.DecodeError as wrong:
        raise ValueError(f'{wrong}; write JSON: [{{"subnet": "10.2.0.0/24", "router": "10.2.0.1"}}]') from None


FIELDS: Final[Mapping[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("subnet", "subnet6", "router", "router6", "domain"), str),
    "nameservers": _words,
    "ntp": _words,
    "vlan": lambda text: int(text) if text else None,
    "mtu": int,
    "proxy": _claim,
    "segments": _segments,
    "quarantine_seconds": float,
    "slice_count": int,
}
KEYS: Final = (*FIELDS, *(f"ranges.{key}" for key in RANGES))


def assigned(network: Network, pairs: Iterable[tuple[str, str]]) -> Network:
    """The network with these values; an empty range takes it out. Raises Invalid with each fault of a value."""
    changed: dict[str, Any] = {}
    ranges = dict(network.ranges)
    problems: list[str] = []
    for key, value in pairs:
        section, dot, name = key.partition(".")
        if dot and section == "ranges" and name in RANGES:
            ranges[name] = value
        elif key in FIELDS:
            try:
                changed[key] = FIELDS[key](value)
            except ValueError as wrong:
                problems.append(f"{key}={value}: {wrong}")
        else:
            near = did_you_mean(key, KEYS) or f"; known are {', '.join(KEYS)}"
            problems.append(f"a network has no field {key!r}{near}")
    if problems:
        raise Invalid(problems)
    changed["ranges"] = {key: text for key, text in ranges.items() if text}
    return valid(Network(**{name: getattr(network, name) for name in network.__struct_fields__} | changed))


def valid(network: Network) -> Network:
    """Raises Invalid for a number outside of its limits."""
    try:
        return msgspec.convert(msgspec.to_builtins(network), Network)
    except msgspec.ValidationError as wrong:
        raise Invalid(f"network: {wrong}; write another value") from None
