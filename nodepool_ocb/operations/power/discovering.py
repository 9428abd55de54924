"""``power discover``: the BMCs that machines reported, beside their power settings."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from nodepool_ocb.engine import powering
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.joining import Inventory
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views.provisioning.power import DiscoveredBmc

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class ReportedBmc(msgspec.Struct, frozen=True):
    """The address that a machine reported; ``trouble``: why it must not be used."""

    address: str
    trouble: str | None = None


class PowerDiscover(Operation[list[DiscoveredBmc]], frozen=True, kw_only=True):
    """The BMCs that machines reported, with those that no power settings name yet first.

    A machine can report any address, and the password would be sent there. So ``within`` names the networks of the BMCs: another
    address is a trouble. So is one address that two machines report.
    """

    noun = "power"
    verb = "discover"
    right = Right.VIEWER
    reads = (ReadWorld, selection.MatchNodes)

    nodes: tuple[str, ...] = ()  # these alone; without any, all
    selector: str | None = None
    within: tuple[str, ...] = ()  # networks, as 10.9.0.0/24

    def decide(self, situation: Situation) -> Steps[list[DiscoveredBmc]]:  # noqa: ARG002
        world = yield from ReadWorld()
        networks = [network(text) for text in self.within]
        known = {name for name, stored in world.of(Inventory).items() if stored.record.facts.bmc_address}
        names = yield from selection.among(world, known, self.nodes, self.selector)
        taken = addresses(world)
        rows = [_row(world, name, networks, taken) for name in names]
        return sorted(rows, key=lambda row: row.driver is not None)


def addresses(world: World) -> dict[str, set[str]]:
    """Each address of a BMC → the nodes that reported it, or have it in their power settings."""
    found: dict[str, set[str]] = {}
    for name, stored in world.of(Inventory).items():
        if name in world.nodes and (address := _canonical(stored.record.facts.bmc_address)):
            found.setdefault(address, set()).add(name)
    for name, power in powering.powers(world).items():
        if address := _canonical(_host(power.record.address)):
            found.setdefault(address, set()).add(name)
    return found


def reported(world: World, fqdn: str, taken: dict[str, set[str]], within: Sequence[Network] = ()) -> ReportedBmc:
    """The address of the BMC of a node; ``taken``: ``addresses``; ``within``: the networks of BMCs, if they are known."""
    stored = world.of(Inventory).get(fqdn)
    text = stored.record.facts.bmc_address if stored is not None else ""
    address = _canonical(text)
    if address is None:
        said = f"its machine reported {text!r}, which is no address of a BMC" if text else "its machine reported no BMC"
        return ReportedBmc("", said)
    if others := sorted(taken.get(address, set()) - {fqdn}):
        return ReportedBmc(address, f"{', '.join(others)} has the BMC {address}, too; one of them reports a wrong one")
    if within and not any(ipaddress.ip_address(address) in each for each in within):
        return ReportedBmc(address, f"{address} is in none of the networks {', '.join(map(str, within))}")
    return ReportedBmc(address)


def _row(
    world: World,
    fqdn: str,
    networks: Sequence[Network],
    taken: dict[str, set[str]],
) -> DiscoveredBmc:
    found, power = reported(world, fqdn, taken, networks), powering.powers(world).get(fqdn)
    record = power.record if power is not None else None
    return DiscoveredBmc(
        node=fqdn,
        bmc=found.address,
        driver=record.driver if record is not None else None,
        address=record.address if record is not None else None,
        trouble=found.trouble,
    )


def network(text: str) -> Network:
    """A network of BMCs. Raises Invalid."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise Invalid(f"within: {text!r} is no network: {error}; write one as 10.9.0.0/24") from None


def _canonical(text: str) -> str | None:
    """An address in its usual form; None if it is none."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _host(address: str) -> str:
    """The host in the address of a power record.

    >>> _host("https://10.0.0.9:8443"), _host("10.0.0.9:623"), _host("fd00::9"), _host("[fd00::9]:623")
    ('10.0.0.9', '10.0.0.9', 'fd00::9', 'fd00::9')
    """
    bare = address.rpartition("//")[2].partition("/")[0]
    if bare.startswith("["):
        return bare[1:].partition("]")[0]
    return bare if bare.count(":") > 1 else bare.partition(":")[0]
