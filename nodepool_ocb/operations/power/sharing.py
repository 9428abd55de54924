"""Whether two power settings switch one machine: a cycle for one node would then switch the machine of the other.

One machine has many spellings. So a host counts by its name, and by the addresses that the name had when it was set. A port
counts if it is not the usual one. A BMC that speaks IPMI and Redfish is one BMC. Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from msgspec.structs import replace

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.power import MachinePower

#: The options that do not say which machine is switched.
BESIDE: Final = frozenset({"ca", "console", "host_key", "interface", "mode", "nic", "verify"})
#: The ports that need not be written, by driver or by scheme of the URL.
PORTS: Final[Mapping[str, int]] = {"ipmi": 623, "https": 443, "http": 80, "ssh": 22}
#: The drivers of which one BMC may speak several.
OF_BMCS: Final = frozenset({"ipmi", "redfish"})
SOCKET: Final = "unix:"
REDFISH: Final = "/redfish/v1"  # the path of its service, which need not be written
_NAMING: Final = "redfish: system=ID; ssh: its commands"

#: One spelling of a machine. It begins with the driver, with ``BMC`` and the driver where another driver recognises it, or with
#: ``SYSTEMS`` and whether a system of a BMC is named: a setting without a name means the only one.
Spelling: TypeAlias = tuple[object, ...]
BMC: Final = "bmc"
SYSTEMS: Final = "systems"


def host_of(record: MachinePower) -> str:
    """The host in its address, in small letters; empty without an address, and for a socket.

    >>> [host_of(MachinePower(driver=driver, address=address)) for driver, address in (
    ...     ("redfish", "https://BMC1:8443/x"), ("ipmi", "10.0.0.9:623"), ("ipmi", "[fd00::9]"), ("ssh", "ann@h1."))]
    ['bmc1', '10.0.0.9', 'fd00::9', 'h1']
    """
    return _parts(record)[0]


def is_name(host: str) -> bool:
    """Whether a host is a name, which has addresses, and not an address."""
    return bool(host) and _canonical(host) is None


def same(one: MachinePower | None, other: MachinePower) -> bool:
    """Whether the setting of the machine itself is unchanged, as it is written."""
    return one is not None and set(_exact(one, ())) == set(_exact(other, ()))


def refuse(before: Mapping[str, MachinePower], after: Mapping[str, MachinePower]) -> None:
    """Raises Invalid for nodes that would get the power of another node's machine, with the name of that node."""
    whole = {**before, **after}
    owners: dict[Spelling, set[str]] = {}
    for name, record in whole.items():
        for spelling in _spellings(record):
            owners.setdefault(spelling, set()).add(name)
    faults = []
    for name, record in after.items():
        if not same(before.get(name), record) and (others := sorted(_sharing(name, record, owners))):
            faults.append(_sentence(name, record, others[0], whole[others[0]]))
    if faults:
        raise Invalid(faults)


def _sharing(name: str, record: MachinePower, owners: Mapping[Spelling, set[str]]) -> Iterator[str]:
    """The other nodes whose settings have a spelling of this one."""
    for spelling in _spellings(record):
        for own in _counterparts(spelling):
            yield from owners.get(own, set()) - {name}


def _counterparts(spelling: Spelling) -> Iterator[Spelling]:
    """The spellings that other settings of the same machine have."""
    if spelling[0] == BMC:
        yield from ((BMC, driver, *spelling[2:]) for driver in OF_BMCS if driver != spelling[1])
    elif spelling[0] == SYSTEMS:
        yield SYSTEMS, not spelling[1], *spelling[2:]
    else:
        yield spelling


def _sentence(name: str, record: MachinePower, other: str, its: MachinePower) -> str:
    spelt = "" if (its.driver, its.address) == (record.driver, record.address) else f" ({_written(its)})"
    return (
        f"{name}: {_written(record)} is the power of {other}, too{spelt}, and a cycle for one would switch the"
        " other; give each its own address, as bmc-{host}.example.com, or the option that names its machine"
        f" ({_NAMING})"
    )


def _written(record: MachinePower) -> str:
    """As a person wrote it, with the addresses of its name.

    >>> _written(MachinePower(driver="ipmi", address="bmc1", resolved=("10.9.0.1",)))
    'ipmi bmc1 at 10.9.0.1'
    """
    return f"{record.driver} {record.address}" + (f" at {', '.join(record.resolved)}" if record.resolved else "")


def _spellings(record: MachinePower) -> Iterator[Spelling]:
    """All of them; none without an address, as where a person switches the machine."""
    yield from _exact(record, record.resolved)
    host, port, _ = _parts(record)
    if record.driver in OF_BMCS and host and not port:
        for each in (host, *record.resolved):
            yield BMC, record.driver, _canonical(each) or each
    if record.driver == "redfish":
        unnamed = replace(record, options={key: value for key, value in record.options.items() if key != "system"})
        yield from ((SYSTEMS, bool(_system(record)), *each) for each in _exact(unnamed, record.resolved))


def _system(record: MachinePower) -> str:
    """The system of a BMC that it names, by its id or by its path; empty without one."""
    return record.options.get("system", "").rstrip("/").rpartition("/")[2]


def _exact(record: MachinePower, resolved: tuple[str, ...]) -> Iterator[Spelling]:
    """Those of its driver: host, port and the options that name the machine."""
    host, port, rest = _parts(record)
    named = {**record.options, "system": _system(record)} if "system" in record.options else record.options
    options = tuple(sorted((name, value) for name, value in named.items() if name not in BESIDE))
    for each in (host, *resolved) if record.address else ():
        yield record.driver, _canonical(each) or each, port, rest, options


def _parts(record: MachinePower) -> tuple[str, str, str]:
    """Host, port if it is not the usual one, and the rest of the address."""
    address = record.address
    if address.startswith(SOCKET):
        return "", "", address
    scheme, slashes, bare = address.partition("://")
    if slashes:
        url = urlsplit(address)
        path = url.path.rstrip("/").removesuffix(REDFISH)
        return _bare(url.hostname or ""), _port(scheme.lower(), _number(url.netloc)), path
    user, _, bare = address.rpartition("@")
    rest = user or ("root" if record.driver == "ssh" else "")
    if bare.startswith("["):
        return _bare(bare[1:].partition("]")[0]), _port(record.driver, _number(bare)), rest
    if bare.count(":") == 1:
        return _bare(bare.partition(":")[0]), _port(record.driver, _number(bare)), rest
    return _bare(bare), "", rest


def _number(netloc: str) -> str:
    """The port in a host with a port, without zeros before it; empty if there is none."""
    _, colon, port = netloc.rpartition("]")[2].rpartition(":")
    return port.lstrip("0") if colon else ""


def _port(kind: str, port: str) -> str:
    return "" if port == str(PORTS.get(kind, "")) else port


def _bare(host: str) -> str:
    return host.lower().rstrip(".")


def _canonical(text: str) -> str | None:
    """An address in its usual form; None for a name.

    >>> _canonical("FD00:0::9"), _canonical("::ffff:10.9.0.1"), _canonical("bmc1")
    ('fd00::9', '10.9.0.1', None)
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return str((address.version == 6 and address.ipv4_mapped) or address)
