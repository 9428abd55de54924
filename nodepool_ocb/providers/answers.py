"""The answers of drivers of machines, checked before a launcher writes them into records. Pure.

A driver may be a package of others, and a provider may answer nonsense. Each text of a machine is short and has no control
characters, each address is a host's, each number is finite. An answer with a fault is refused as a whole.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers.machines import MACHINE_STATES, Machine, MachineRefused
from nodepool_ocb.telemetry import terminal_escape

TEXT_CHARACTERS: Final = 1024
FAULT_CHARACTERS: Final = 1000  # of a sentence of a provider, which is cut
PROPERTIES_BYTES: Final = 1 << 16
AMOUNTS: Final = 100  # resources of a machine or a quota
HOST_KEYS: Final = 20
HOST_KEY_CHARACTERS: Final = 1 << 13

_HOST: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?")
_HOST_KEY: Final = re.compile(r"[a-z0-9@.-]{1,64} [A-Za-z0-9+/]{4,}={0,2}")
_IDENTITY: Final = ("external_id", "name")
_PLACE: Final = ("az", "region", "cloud", "host_id")
_ADDRESSES: Final = ("public_ipv4", "private_ipv4", "public_ipv6")


def sentence(text: object) -> str:
    r"""The words of a driver or a provider, in one line of bounded length.

    >>> sentence("no\nroom" + chr(27))
    'no room\\x1b'
    """
    return terminal_escape.line(" ".join(str(text).split(" ")).replace("\n", " "))[:FAULT_CHARACTERS]


def machine(answer: object) -> Machine | MachineRefused:
    """The answer as a machine, or the reason why it is none."""
    if not isinstance(answer, Machine):
        return MachineRefused(f"the driver answered {type(answer).__name__}, which is no Machine")
    try:
        found = msgspec.convert(msgspec.to_builtins(answer), Machine, strict=True)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        return MachineRefused(f"the driver answered a machine that is none: {sentence(error)}")
    fault = next(_faults(found), None)
    if fault is not None:
        return MachineRefused(f"the driver answered a machine that is none: {fault}")
    return found if found.fault is None else msgspec.structs.replace(found, fault=sentence(found.fault))


def quota(answer: object) -> ProviderQuota | MachineRefused:
    """The answer as a quota, or the reason why it is none."""
    if not isinstance(answer, ProviderQuota):
        return MachineRefused(f"the driver answered {type(answer).__name__}, which is no ProviderQuota")
    try:
        found = msgspec.convert(msgspec.to_builtins(answer), ProviderQuota, strict=True)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        return MachineRefused(f"the driver answered a quota that is none: {sentence(error)}")
    faults = [*_amounts("limits", found.limits), *_amounts("foreign", found.foreign)]
    return MachineRefused(f"the driver answered a quota that is none: {faults[0]}") if faults else found


def _faults(found: Machine) -> Iterator[str]:
    for field in _IDENTITY:
        if not getattr(found, field):
            yield f"`{field}` is empty"
    for field in (*_IDENTITY, *_PLACE):
        yield from _text(field, getattr(found, field))
    if found.state not in MACHINE_STATES:
        yield f"`state` is {sentence(found.state)[:40]}, which is none of {', '.join(MACHINE_STATES)}"
    if found.address is not None and not is_host(found.address):
        yield f"`address` {sentence(found.address)[:80]} is neither an address nor a name"
    for field in _ADDRESSES:
        value = getattr(found, field)
        if value and not is_host(value):
            yield f"`{field}` {sentence(value)[:80]} is no address"
    if found.port is not None and not 0 < found.port < 65536:
        yield f"`port` is {found.port}"
    if found.since is not None and not math.isfinite(found.since):
        yield f"`since` is {found.since}"
    yield from _amounts("resources", found.resources)
    yield from host_key_faults(found.host_keys or ())
    yield from _properties(found.properties)


def is_host(text: str) -> bool:
    """Whether it is an address of IPv4 or IPv6, or has the form of a name.

    >>> [is_host(each) for each in ("10.0.0.7", "fe80::1", "n1.example.com", "n1 n2", "-v", "")]
    [True, True, True, False, False, False]
    """
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _HOST.fullmatch(text) is not None
    return True


def host_key_faults(keys: tuple[str, ...]) -> Iterator[str]:
    """The faults of host keys, as sentences."""
    if len(keys) > HOST_KEYS:
        yield f"`host_keys` has {len(keys)} keys"
    for key in keys[:HOST_KEYS]:
        if len(key) > HOST_KEY_CHARACTERS or _HOST_KEY.fullmatch(key) is None:
            yield f"`host_keys` has {sentence(key)[:40]}, which is not TYPE BASE64"


def _text(field: str, value: str | None) -> Iterator[str]:
    if value is None:
        return
    if len(value) > TEXT_CHARACTERS:
        yield f"`{field}` has {len(value)} characters"
    elif terminal_escape.line(value) != value:
        yield f"`{field}` has control characters: {terminal_escape.line(value)[:80]}"


def _amounts(field: str, amounts: Mapping[str, Any]) -> Iterator[str]:
    if len(amounts) > AMOUNTS:
        yield f"`{field}` has {len(amounts)} entries"
    for name, amount in amounts.items():
        yield from _text(field, name)
        if not (math.isfinite(amount) and amount >= 0):
            yield f"`{field}` has {sentence(name)[:40]}: {amount}"


def _properties(properties: Mapping[str, Any]) -> Iterator[str]:
    try:
        size = len(msgspec.json.encode(properties))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        yield f"`properties` is no JSON: {sentence(error)}"
        return
    if size > PROPERTIES_BYTES:
        yield f"`properties` has {size} bytes"
